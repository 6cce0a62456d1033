// SPDX-License-Identifier: Apache-2.0

package rxepeer

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Exchange is one run of a client in one machine against a server in another.
type Exchange struct {
	Name    string
	Server  []string
	Client  []string
	Ready   Readiness
	Checked bool          // the programs compare the data they receive
	Timeout time.Duration // longest time for both ends; 0: ExchangeTimeout
	// Impatient programs have a fixed RC timeout of 67 ms. A busy host that pauses a machine
	// for longer makes them repeat themselves, which counts completer_retry_err and
	// duplicate_request with nothing lost.
	Impatient bool
}

// ExchangeTimeout is generous: an exchange takes a second or two, but emulated machines on a busy
// host can be starved.
const ExchangeTimeout = 3 * time.Minute

// Readiness is how to see that a server can be reached.
type Readiness struct {
	TCPPort int  // TCP port on which the server listens
	CM      bool // the server listens by the RDMA communication manager
}

// Outcome holds both ends of an exchange.
type Outcome struct{ Server, Client Result }

// Exchange runs the server, waits until it listens, runs the client, and waits for both. An error
// of either end is returned.
func (vm *VM) Exchange(ctx context.Context, client *VM, x Exchange) (Outcome, error) {
	timeout := x.Timeout
	if timeout == 0 {
		timeout = ExchangeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out Outcome
	server, err := vm.StartCmd(ctx, Cmd{Argv: x.Server, Timeout: timeout})
	if err != nil {
		return out, fmt.Errorf("%s: %w", x.Name, err)
	}
	defer func() {
		select {
		case <-server.done:
		default:
			_ = server.Signal(unix.SIGKILL) // it may be ending by itself
		}
	}()
	if err := server.AwaitReady(ctx, x.Ready); err != nil {
		return out, fmt.Errorf("%s: server: %w", x.Name, err)
	}
	if out.Client, err = client.RunCmd(ctx, Cmd{Argv: x.Client, Timeout: timeout}); err != nil {
		stdout, stderr := server.Output()
		return out, fmt.Errorf("%s: client: %w\nserver so far:\n%s%s", x.Name, err, stdout, stderr)
	}
	if out.Server, err = server.Wait(ctx); err != nil {
		return out, fmt.Errorf("%s: server: %w", x.Name, err)
	}
	return out, nil
}

// AwaitReady waits until a server can be reached, or has ended.
func (p *Proc) AwaitReady(ctx context.Context, r Readiness) error {
	for {
		ready, err := p.vm.listening(ctx, r)
		if err != nil || ready {
			return err
		}
		select {
		case <-p.done:
			if _, err := p.Wait(ctx); err != nil {
				return err
			}
			return fmt.Errorf("%s ended before it listened", p.cmd.Argv[0])
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w", p.cmd.Argv[0], ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (vm *VM) listening(ctx context.Context, r Readiness) (bool, error) {
	if r.CM {
		res, err := vm.Run(ctx, "rdma", "resource", "show", "cm_id")
		return strings.Contains(res.Stdout, "state LISTEN"), err
	}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, err := vm.Get(ctx, file)
		if err != nil {
			return false, err
		}
		if Listens(b, r.TCPPort) {
			return true, nil
		}
	}
	return false, nil
}

// Listens reports whether a socket of a table listens on a port. The table is that of /proc/net/tcp or tcp6: "sl: local
// remote state ...", addresses as HEX:PORT in hex, state 0A for LISTEN.
func Listens(table []byte, port int) bool {
	suffix := []byte(":" + strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)})))
	for line := range bytes.Lines(table) {
		f := bytes.Fields(line)
		if len(f) > 3 && bytes.HasSuffix(f[1], suffix) && string(f[3]) == "0A" {
			return true
		}
	}
	return false
}
