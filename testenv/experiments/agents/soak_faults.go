// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/loader/device"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// faultCounters are counters of the data plane (docs/run/operations.md) that no event of a soak explains: nobody sends
// wrong packets, nothing damages them, and tables are large enough. rx_echo_absurd is not among them: it was seen once
// after a detach and an attach. As a peer echoes no stamp older than a second, that RTT was most likely below zero; why is not
// traced.
var faultCounters = []string{
	"rx_truncated", "rx_bad_length", "rx_option_checksum", "rx_option_version", "rx_strip_failed",
	"control_bad_icrc", "control_malformed", grantsWithoutCredit, lateHelloAck,
	"tx_udp_checksum", "tx_stamp_failed", "tx_gso", "tx_malformed", "tx_table_full", "active_lost",
}

// grantsWithoutCredit counts grants to a host without pre-credit. An event that turns it off ends the engine, and peers
// send grants until they have the capabilities of the next engine: while the agent is replaced, for about a second. Where
// it was never on, none arrive.
const grantsWithoutCredit = "control_unknown"

// lateHelloAck counts HELLO_ACKs with another nonce than that of this attachment. A host that was detached and attached
// again may get the answer to a HELLO from before.
const lateHelloAck = "hello_ack_forged"

// explained reports whether an event of the soak explains a fault counter of a host.
func (s *soak) explained(host int, name string) bool {
	return name == grantsWithoutCredit && s.credited[host] || name == lateHelloAck && s.detached[host]
}

// deviceFaults are such counters of the device.
var deviceFaults = []string{
	"rx_icrc_encapsulated", "rx_malformed", "rx_too_long", "rx_bad_pkey", "rx_malformed_request", "rx_cm_malformed",
	"rx_not_allowed", "rx_bad_qkey", "tx_no_room", "cm_steer_errors", "sync_errors", "events_lost",
	"resp_remote_invalid_request", "resp_remote_operation_errors", "resp_local_errors",
}

// checkFaults notes counters that are not zero, on all hosts.
func (s *soak) checkFaults() error {
	for host := range s.hosts {
		if err := s.checkFaultsOf(host); err != nil {
			return err
		}
	}
	return nil
}

// checkFaultsOf does so on one host. A device that ends meanwhile has no counters.
func (s *soak) checkFaultsOf(host int) error {
	o := s.hosts[host].LoaderOptions()
	a, err := loader.Open(topo.IfName, o)
	if err != nil {
		return fmt.Errorf("host %d: %w", host+1, err)
	}
	defer a.Close()
	stats, err := a.Stats()
	if err != nil {
		return fmt.Errorf("host %d: %w", host+1, err)
	}
	counted := map[string]uint64{}
	for _, st := range stats {
		counted[st.Name] = st.Count
	}
	for _, name := range faultCounters {
		if n := counted[name]; n != 0 && !s.explained(host, name) {
			s.problem("host %d: the data plane counts %s %d", host+1, name, n)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	st, err := device.ReadStatus(ctx, proto.SocketPath(o.RunDir, topo.IfName))
	if err != nil {
		return nil // calm judges whether a device is served again
	}
	for _, name := range deviceFaults {
		if n := st.Counters[name]; n != 0 {
			s.problem("host %d: the device counts %s %d", host+1, name, n)
		}
	}
	return nil
}

// kernelLog reads the lines that the kernel writes during a soak. They may be of other programs of the machine.
type kernelLog struct{ fd int }

// kernelWarnings are lines that the kernel writes when it has found a mistake of itself.
var kernelWarnings = regexp.MustCompile(`Oops|WARNING: |BUG: |BUG at |refcount_t|general protection fault|Call Trace|` +
	`unregister_netdevice: waiting|blocked for more than|page allocation failure|Out of memory`)

func openKernelLog() (*kernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("kernel log: %w", err)
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("kernel log: %w", err)
	}
	return &kernelLog{fd}, nil
}

func (k *kernelLog) close() {
	if k != nil {
		unix.Close(k.fd)
	}
}

// warnings returns the warnings since the last call. A log that could not be opened has none.
func (k *kernelLog) warnings() (list []string) {
	if k == nil {
		return nil
	}
	record := make([]byte, 8<<10)
	for {
		n, err := unix.Read(k.fd, record)
		switch {
		case errors.Is(err, unix.EPIPE): // the kernel has overwritten records
			continue
		case err != nil:
			return list
		case kernelWarnings.Match(record[:n]):
			list = append(list, "the kernel log: "+string(record[:n]))
		}
	}
}
