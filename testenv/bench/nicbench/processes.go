// SPDX-License-Identifier: Apache-2.0

package nicbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"gonum.org/v1/gonum/floats"

	"github.com/softroce/softroce-xdp/loader"
	"github.com/softroce/softroce-xdp/rocev2"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/bench/internal/compare"
)

// Targets of several processes on one device.
var (
	fairTarget   = compare.AtLeast(0.95, "%.2f") // Jain's index of four
	victimTarget = compare.AtLeast(0.95, "%.2f") // throughput next to a process that is killed, of that next to one that is not
	sleepTarget  = compare.AtMost(1, "%.1f")     // percent of a core with idle processes
)

// ClientCommand is what bench starts as a client process of the device: it connects, says so, and
// measures when it is told to.
func ClientCommand() *cobra.Command {
	var dirs, addrs []string
	var size, under int
	var each time.Duration
	var kind string
	cmd := &cobra.Command{
		Use: "nic-client", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if len(dirs) != 2 || len(addrs) != 2 {
				return errors.New("nic-client is started by `bench nic`")
			}
			var to [2]netip.Addr
			for i, a := range addrs {
				if to[i], err = netip.ParseAddr(a); err != nil {
					return err
				}
			}
			if kind != "" {
				return attack(dirs[0], kind)
			}
			devs, closeAll, err := openClients(cmd.Context(), [2]string(dirs))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, closeAll()) }()
			p, err := newPair(devs, to, pairSpec{qps: 1, depth: under, memory: max(1<<16, size*under), pmtu: rocev2.PMTU4096})
			if err != nil {
				return err
			}
			fmt.Println("ready")
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				f, err := p.run(stream{op: verbs.OpWrite, size: size, under: under}, each/4, each, nil, nil)
				if err != nil {
					return err
				}
				fmt.Println(f.perSecond())
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&dirs, "dirs", nil, "directories of the sockets of both hosts")
	f.StringSliceVar(&addrs, "addrs", nil, "addresses of both hosts")
	f.IntVar(&size, "size", 64, "bytes of a message")
	f.IntVar(&under, "under", 64, "messages outstanding")
	f.DurationVar(&each, "time", time.Second, "length of a measurement")
	f.StringVar(&kind, "hostile", "", "a hostile process of this kind instead")
	return cmd
}

// child is a client process, or a hostile one.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (w *world) child(ctx context.Context, size, under int, each time.Duration) (*child, error) {
	return w.begin(ctx, 0, "--size", fmt.Sprint(size), "--under", fmt.Sprint(under), "--time", each.String())
}

// hostileUser is the user of hostile processes: nobody.
const hostileUser = 65534

func (w *world) hostile(ctx context.Context, kind string) (*child, error) {
	return w.begin(ctx, hostileUser, "--hostile", kind)
}

// begin starts a client process of a user, and waits until it is ready.
func (w *world) begin(ctx context.Context, uid uint32, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{
		"nic-client", "--dirs", w.options(w.top.Host(1)).RunDir + "," + w.options(w.top.Host(2)).RunDir,
		"--addrs", w.addrs[0].String() + "," + w.addrs[1].String(),
	}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Stderr = os.Stderr
	in, out, err := untilReady(cmd)
	if err != nil {
		return nil, fmt.Errorf("client process: %w", err)
	}
	return &child{cmd: cmd, in: in, out: out}, nil
}

// startable is a command in this namespace or in that of a host.
type startable interface {
	StdinPipe() (io.WriteCloser, error)
	StdoutPipe() (io.ReadCloser, error)
	Start() error
	Wait() error
}

// untilReady starts a command and waits until it has printed "ready". If it prints something else, its input
// ends, which ends it.
func untilReady(cmd startable) (in io.WriteCloser, out *bufio.Scanner, err error) {
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	if out = bufio.NewScanner(pipe); !out.Scan() || out.Text() != "ready" {
		return nil, nil, errors.Join(fmt.Errorf("it printed %q in place of ready", out.Text()), in.Close(), cmd.Wait())
	}
	return in, out, nil
}

// runs reports whether the process has not ended.
func (c *child) runs() bool {
	return unix.Kill(c.cmd.Process.Pid, 0) == nil && !zombie(c.cmd.Process.Pid)
}

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, ok := strings.Cut(string(b), ") ")
	return err != nil || !ok || strings.HasPrefix(state, "Z")
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

func (c *child) start() error {
	_, err := fmt.Fprintln(c.in, "go")
	return err
}

// rate returns the messages a second of what start has started.
func (c *child) rate() (v float64, err error) {
	if !c.out.Scan() {
		return 0, errors.New("a client process has ended")
	}
	_, err = fmt.Sscan(c.out.Text(), &v)
	return v, err
}

// children runs f with n client processes.
func (w *world) children(ctx context.Context, n, size, under int, each time.Duration, f func([]*child) error) (err error) {
	var all []*child
	defer func() {
		for _, c := range all {
			c.kill()
		}
	}()
	for range n {
		c, err := w.child(ctx, size, under, each)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	return f(all)
}

// together measures all of them at the same time.
func together(all []*child) (rates []float64, err error) {
	for _, c := range all {
		if err := c.start(); err != nil {
			return nil, err
		}
	}
	for _, c := range all {
		v, err := c.rate()
		if err != nil {
			return nil, err
		}
		rates = append(rates, v)
	}
	return rates, nil
}

// processes is what several client processes of one device get.
func processes(ctx context.Context, w *world, c config, r *compare.Report) error {
	return w.withServers(func() error {
		t := r.Titled("Messages of all client processes, WRITE of 64 B, 256 outstanding", "PROCESSES\t1000 MESSAGES/S\tMIN TO MAX\t")
		for _, n := range []int{1, 4, 16} {
			rates, err := w.roundsOf(ctx, n, 64, max(16, 256/n), c, func(v []float64) float64 { return floats.Sum(v) / 1e3 })
			if err != nil {
				return err
			}
			t.Row("%d\t%.0f\t%s", n, rates.Median(), rates.Span("%.0f"))
		}
		t.End()
		t = r.Titled("Client processes at the same time, WRITE of 64 KB", "WHAT\tVALUE\tTARGET\t\t")
		for _, f := range []func(context.Context, *world, config, *compare.Table) error{fairness, nextToKilled, idleProcesses} {
			if err := f(ctx, w, c, t); err != nil {
				return err
			}
		}
		t.End()
		return nextToHostile(ctx, w, c, r)
	})
}

// roundsOf measures n client processes at the same time, and makes a figure of their messages a second.
func (w *world) roundsOf(ctx context.Context, n, size, under int, c config, figure func([]float64) float64) (s compare.Series, err error) {
	err = w.children(ctx, n, size, under, c.each, func(all []*child) error {
		for range c.rounds {
			v, err := together(all)
			if err != nil {
				return err
			}
			s = append(s, figure(v))
		}
		return nil
	})
	return s, err
}

func fairness(ctx context.Context, w *world, c config, t *compare.Table) error {
	fair, err := w.roundsOf(ctx, 4, 64<<10, 16, c, jain)
	if err == nil {
		t.Row("Jain's index of four\t%.3f\t%s", fair.Median(), t.Median(fairTarget, fair))
	}
	return err
}

// nextToKilled compares a process next to one that goes on with the same next to one that is killed in
// the middle.
func nextToKilled(ctx context.Context, w *world, c config, t *compare.Table) error {
	var usual, killed compare.Series
	for range c.rounds {
		err := w.children(ctx, 2, 64<<10, 16, c.each, func(all []*child) error {
			v, err := together(all)
			if err != nil {
				return err
			}
			usual = append(usual, v[0])
			if err := errors.Join(all[0].start(), all[1].start()); err != nil {
				return err
			}
			time.Sleep(c.each / 2) // a quarter of it warms up
			all[1].kill()
			x, err := all[0].rate()
			killed = append(killed, x)
			return err
		})
		if err != nil {
			return err
		}
	}
	share := killed.Over(usual)
	t.Row("throughput next to a process that is killed, of that next to one that is not\t%.2f\t%s", share.Median(), t.Median(victimTarget, share))
	return nil
}

// idleProcesses is the CPU time of an agent with 16 processes that do nothing.
func idleProcesses(ctx context.Context, w *world, c config, t *compare.Table) error {
	st, err := loader.ReadState(w.options(w.top.Host(1)).RunDir, cableName)
	if err != nil {
		return err
	}
	return w.children(ctx, 16, 64, 16, c.each, func([]*child) error {
		begin, start := cpuOf(st.AgentPID), time.Now()
		select {
		case <-time.After(max(time.Second, c.each*time.Duration(c.rounds))):
		case <-ctx.Done():
			return ctx.Err()
		}
		share := 100 * float64(cpuOf(st.AgentPID)-begin) / float64(time.Since(start))
		t.Row("percent of a core of the agent with 16 idle processes\t%.2f\t%s", share, t.Judge(sleepTarget, share, nil))
		return nil
	})
}

// cpuOf is the CPU time of another process (clock_getcpuclockid(3)).
func cpuOf(pid int) time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(int32(^pid<<3|2), &ts)
	return time.Duration(ts.Nano())
}
