// SPDX-License-Identifier: Apache-2.0

package netbench

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
	"github.com/softroce/softroce-xdp/testenv/lab/load"
)

func newClient() *cobra.Command {
	var c common
	var to string
	var fl load.Flow
	var quiet bool
	cmd := &cobra.Command{
		Use:   "client --to ADDR[,ADDR...]",
		Short: "Send RDMA WRITEs to one or more servers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dests, err := parseAddrs(to)
			if err != nil {
				return err
			}
			ep, err := c.open(func() (netip.Addr, error) { return sourceFor(dests[0]) })
			if err != nil {
				return err
			}
			fl.Interval = c.interval
			p := &printer{cmd: cmd, json: c.json}
			err = sendAll(cmd, ep, dests, fl, p, quiet)
			if closeErr := ep.Close(); err == nil && closeErr != nil {
				err = compare.Failure(closeErr)
			}
			return err
		},
	}
	c.register(cmd)
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "destination addresses, separated by commas")
	f.DurationVar(&fl.Duration, "time", 0, "how long to send (default: until --bytes are sent, or interrupted)")
	f.Uint64Var(&fl.Bytes, "bytes", 0, "payload bytes per destination")
	f.IntVar(&fl.MessageBytes, "size", 0, "bytes of one RDMA WRITE (default 64 packets)")
	f.IntVar(&fl.PMTU, "pmtu", 1024, "payload bytes of one packet: 256, 512, 1024, 2048 or 4096")
	f.IntVar(&fl.Window, "window", 256, "packets in flight per destination")
	f.IntVar(&fl.AckEvery, "ack-every", 0, "ask for an ACK every so many packets (default 16)")
	f.IntVar(&fl.SendBuffer, "send-buffer", 0, "socket buffer in bytes of kernel memory (default: holds the window)")
	f.IntVar(&fl.TOS, "tos", 0, "type of service or traffic class")
	f.Float64Var(&c.Corrupt, "corrupt", 0, "share of the packets to damage after the ICRC was computed, 0 to 1")
	f.BoolVar(&quiet, "quiet", false, "print only the summary")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic(err)
	}
	return cmd
}

func sendAll(cmd *cobra.Command, ep *load.Endpoint, dests []netip.Addr, fl load.Flow, p *printer, quiet bool) error {
	errs := make([]error, len(dests))
	var wg sync.WaitGroup
	for i, dest := range dests {
		wg.Go(func() {
			fl := fl
			fl.To = dest
			if !quiet {
				fl.OnSample = func(s load.Sample) { p.sample(dest, s) }
			}
			r, err := ep.Send(cmd.Context(), fl)
			if r.QPN != 0 { // it got as far as sending
				p.summary(r)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, p.err)...); err != nil {
		return compare.Failure(err)
	}
	return nil
}

// printer writes whole lines from several flows.
type printer struct {
	cmd  *cobra.Command
	json bool

	mu  sync.Mutex
	err error
}

func (p *printer) line(v any, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.json {
		err = json.NewEncoder(p.cmd.OutOrStdout()).Encode(v)
	} else {
		_, err = fmt.Fprintf(p.cmd.OutOrStdout(), format, args...)
	}
	if p.err == nil {
		p.err = err
	}
}

func (p *printer) sample(to netip.Addr, s load.Sample) {
	v := struct {
		To netip.Addr `json:"to"`
		load.Sample
	}{to, s}
	p.line(v, "%8.3fs  to %-15s %9.2f Mbit/s  rtt %7.3f ms (%.3f..%.3f)  %4d in flight  %d retransmits\n",
		s.At.Seconds(), to, s.GoodputBPS/1e6, ms(s.RTTMean), ms(s.RTTMin), ms(s.RTTMax), s.Outstanding, s.Retransmits)
}

func (p *printer) summary(r load.Report) {
	r.Samples = nil // printed already
	v := struct {
		Total load.Report `json:"total"`
	}{r}
	p.line(v, "total      to %-15s %9.2f Mbit/s  rtt %7.3f ms (%.3f..%.3f)  %d bytes in %.3f s, %d retransmits, %d NAKs, %d timeouts, %d push-backs\n",
		r.To, r.GoodputBPS/1e6, ms(r.RTTMean), ms(r.RTTMin), ms(r.RTTMax), r.Bytes, r.Elapsed.Seconds(), r.Retransmits, r.NAKs, r.Timeouts, r.PushBacks)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
