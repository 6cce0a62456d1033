// SPDX-License-Identifier: Apache-2.0

package clib

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/require"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// command is a row of the table of commands: a program of Debian with options, between two hosts, or on one host.
type command struct {
	line  string // as the table shows it; the options of GID, device and CPU frequency are added
	quick bool   // runs in every test of the package

	// Every message must arrive for this command to end, and its transport does not repeat what is lost.
	unreliable bool

	// Client and server must be of the same version of rdma-core. That of the machine with rxe is another one.
	versioned bool
}

// commands are the rows of the table. Odd sizes take several packets, with pad bytes.
var commands = slices.Concat(
	rows(command{}, "ibv_devices", "ibv_devinfo -v"),
	rows(command{quick: true}, "ibv_rc_pingpong -c -s 12347 -n 300"),
	rows(command{}, "ibv_rc_pingpong -c", "ibv_rc_pingpong -c -e", "ibv_rc_pingpong -c -N -n 500", "ibv_rc_pingpong -c -N -e -n 300",
		"ibv_rc_pingpong -c -s 1 -n 300", "ibv_rc_pingpong -c -m 256 -s 10007 -n 300", "ibv_rc_pingpong -c -m 4096 -s 100003 -n 200"),
	rows(command{unreliable: true}, "ibv_uc_pingpong -c -n 300", "ibv_uc_pingpong -c -e -s 3001 -n 300", "ibv_uc_pingpong -c -m 256 -n 300",
		"ibv_ud_pingpong -c -n 300", "ibv_ud_pingpong -c -e -s 77 -n 300", "ibv_ud_pingpong -c -s 1001 -n 300"),
	rows(command{}, "ibv_srq_pingpong -c -n 200", "ibv_srq_pingpong -c -e -n 200", "ibv_srq_pingpong -c -q 4 -s 1001 -n 500"),

	rows(command{}, "ib_write_bw -a -n 5", "ib_write_bw -n 1000", "ib_write_bw -s 1 -n 1000", "ib_write_bw -b -n 1000"),
	rows(command{quick: true}, "ib_write_bw -q 4 -b -s 4099 -n 200"),
	rows(command{}, "ib_write_bw -I 64 -s 64 -n 1000", "ib_write_bw -m 256 -s 4099 -n 500",
		"ib_write_bw -m 512 -s 4099 -n 500", "ib_write_bw -m 1024 -s 4099 -n 500", "ib_write_bw -m 2048 -s 10007 -n 500",
		"ib_write_bw -m 4096 -s 100003 -n 200", "ib_write_bw -t 1 -n 200", "ib_write_bw -t 16 -n 500", "ib_write_bw -l 8 -s 1001 -n 800",
		"ib_write_bw -c UC -s 4099 -n 1000", "ib_write_bw -c UC -q 4 -b -s 1000 -n 500"),
	rows(command{}, "ib_write_lat -a -n 5", "ib_write_lat -n 1000", "ib_write_lat -s 4099 -n 300", "ib_write_lat -I 0 -s 64 -n 300",
		"ib_write_lat -m 256 -s 1001 -n 300"),
	rows(command{unreliable: true}, "ib_write_lat -c UC -s 64 -n 300"),

	rows(command{}, "ib_read_bw -a -n 5", "ib_read_bw -n 1000", "ib_read_bw -s 1 -n 1000", "ib_read_bw -b -n 500"),
	rows(command{quick: true}, "ib_read_bw -q 4 -b -s 4099 -n 200"),
	rows(command{}, "ib_read_bw -e -s 4099 -n 500", "ib_read_bw -m 256 -s 4099 -n 300", "ib_read_bw -m 4096 -s 100003 -n 200",
		"ib_read_bw -t 1 -n 200", "ib_read_bw -o 1 -s 4099 -n 300"),
	rows(command{}, "ib_read_lat -a -n 5", "ib_read_lat -n 500", "ib_read_lat -e -s 4099 -n 300", "ib_read_lat -m 256 -s 1001 -n 300"),

	rows(command{}, "ib_send_bw -a -n 5", "ib_send_bw -n 1000", "ib_send_bw -s 1 -n 1000", "ib_send_bw -b -n 500"),
	rows(command{quick: true}, "ib_send_bw -q 4 -b -s 4099 -n 200"),
	rows(command{}, "ib_send_bw -e -s 1001 -n 500", "ib_send_bw -b -e -s 1001 -n 500", "ib_send_bw -I 64 -s 64 -n 1000",
		"ib_send_bw -m 256 -s 4099 -n 300", "ib_send_bw -m 4096 -s 100003 -n 200", "ib_send_bw -t 1 -r 1 -s 4099 -n 200",
		"ib_send_bw -r 16 -s 1001 -n 500", "ib_send_bw --use-srq -q 4 -s 1001 -n 300"),
	rows(command{unreliable: true}, "ib_send_bw -c UC -s 4099 -n 500", "ib_send_bw -c UD -s 1001 -n 500", "ib_send_bw -c UD -e -s 77 -n 500",
		"ib_send_bw -c UD -b -s 1000 -n 500", "ib_send_bw -c UD -q 2 -s 1000 -n 500"),
	rows(command{}, "ib_send_lat -a -n 5", "ib_send_lat -n 500", "ib_send_lat -I 0 -s 2001 -n 300", "ib_send_lat -e -s 64 -n 300",
		"ib_send_lat -m 256 -s 1001 -n 300"),
	rows(command{unreliable: true}, "ib_send_lat -c UC -s 1001 -n 300", "ib_send_lat -c UD -s 1001 -n 300", "ib_send_lat -c UD -e -n 300"),

	rows(command{}, "ib_atomic_bw -n 500", "ib_atomic_bw -A CMP_AND_SWAP -n 500", "ib_atomic_bw -b -n 300", "ib_atomic_bw -e -n 300"),
	rows(command{quick: true}, "ib_atomic_bw -q 4 -n 200"),
	rows(command{}, "ib_atomic_bw -t 1 -n 200", "ib_atomic_bw -o 1 -n 200"),
	rows(command{}, "ib_atomic_lat -n 300", "ib_atomic_lat -A CMP_AND_SWAP -n 300", "ib_atomic_lat -e -n 300"),

	rows(command{quick: true}, "rping -C 50 -S 4099"),
	rows(command{}, "rping -C 100 -v", "ucmatose", "ucmatose -c 20 -C 20 -S 4099", "ucmatose -c 2 -C 20 -S 100 -m"),
	rows(command{}, "rdma_client", "rdma_xclient"),
	rows(command{versioned: true}, "cmtime -c 100"),
	rows(command{unreliable: true}, "udaddy", "udaddy -c 5 -C 20 -S 500"),
	rows(command{}, "ib_write_bw -R -n 500", "ib_read_bw -R -n 500", "ib_send_bw -R -q 4 -n 200"),
	rows(command{}, "ib_write_lat -R -n 300", "ib_read_lat -R -n 300", "ib_send_lat -R -n 300", "ib_atomic_lat -R -n 300"),
)

// rows are commands that differ in their lines.
func rows(c command, lines ...string) (all []command) {
	for _, line := range lines {
		c.line = line
		all = append(all, c)
	}
	return all
}

// alone reports whether the command runs on one host.
func (c command) alone() bool { return strings.HasPrefix(c.line, "ibv_dev") }

// argv is the command on a host.
func (c command) argv(h *commandHost) []string {
	argv := strings.Fields(c.line)
	switch {
	case argv[0] == "ibv_devices":
		return argv
	case c.alone():
		return append(argv, "-d", h.device)
	case strings.HasPrefix(c.line, "ibv_"):
		return append(argv, "-d", h.device, "-g", h.gid)
	case slices.Contains(argv, "-R"): // the address chooses device and GID
		return append(argv, "-F", "-u", strconv.Itoa(h.timeout))
	}
	// -F: the speed of the CPU of a virtual machine may seem to change. -u: a busy host pauses a machine for longer than the
	// timeout of perftest, 67 ms.
	return append(argv, "-d", h.device, "-x", h.gid, "-F", "-u", strconv.Itoa(h.timeout))
}

// sides are the commands of both sides.
func (c command) sides(server, client *commandHost) (serve, request []string) {
	program, options, _ := strings.Cut(c.line, " ")
	opts := strings.Fields(options)
	switch program {
	case "rping":
		return slices.Concat([]string{program, "-s", "-a", server.addr}, opts), slices.Concat([]string{program, "-c", "-a", server.addr}, opts)
	case "ucmatose", "udaddy", "cmtime":
		return slices.Concat([]string{program, "-b", server.addr}, opts), slices.Concat([]string{program, "-s", server.addr}, opts)
	case "rdma_client", "rdma_xclient":
		return []string{strings.Replace(program, "client", "server", 1)}, slices.Concat([]string{program, "-s", server.addr}, opts)
	}
	return c.argv(server), append(c.argv(client), server.addr)
}

// connects reports whether the programs connect by rdma_cm: nothing shows that the server listens.
func (c command) connects() bool {
	return strings.Contains(c.line, "-R") || strings.HasPrefix(c.line, "r") || slices.Contains([]string{"ucmatose", "udaddy", "cmtime"}, strings.Fields(c.line)[0])
}

// refusals match what clients of rdma_cm print if nothing listens yet, and servers if the agent has not yet closed the port of
// the one before. perftest connects twice, and does not wait until its server listens again.
var refusals = regexp.MustCompile(`REJECTED|UNREACHABLE, error 1|Connection refused|Unable to init the socket connection|Address already in use`)

// lateTries is how often an example of libibverbs runs at most if an agent stood still for 1.8 s.
const lateTries = 5

// fabricCrash matches a fault of libfabric 1.17: when the peer's disconnect and its last message come together, ofi_rxm posts a receive
// to an endpoint that it has just closed. The program has printed its results before.
var fabricCrash = regexp.MustCompile(`Terminating test\s+fi_pingpong:\d+ terminated with signal 11`)

// wasLate reports whether an example of libibverbs was late and has received no wrong data, or fi_pingpong has met that fault.
func wasLate(program string, err error) bool {
	return err != nil && (strings.HasPrefix(program, "ibv_") && rxepeer.TimedOut(err.Error()) || fabricCrash.MatchString(err.Error()))
}

// results match what a program prints that has measured something, or listed the device.
var results = map[string]*regexp.Regexp{
	"ibv_devices": regexp.MustCompile(`(?m)^ +(softroce_eth0|rxe0)\s+[0-9a-f]{16}$`),
	"ibv_devinfo": regexp.MustCompile(`(?m)^\s+GID\[ *\d+\]:\s+::ffff:10\.`),
	"ibv":         regexp.MustCompile(`(?m)^\d+ iters in `),
	"rping":       regexp.MustCompile(`(?m)^`),
	"ucmatose":    regexp.MustCompile(`(?m)^return status 0$`),
	"udaddy":      regexp.MustCompile(`(?m)^return status 0$`),
	"rdma":        regexp.MustCompile(`(?m)^rdma_x?client: end 0$`),
	"cmtime":      regexp.MustCompile(`(?m)^disconnect  `),
	"ib":          regexp.MustCompile(`(?m)^ *\d+ +\d+ +(\d+\.\d+|inf) `), // inf: perftest could not measure the speed of the CPU
}

// result is the expression of a command.
func (c command) result() *regexp.Regexp {
	program, _, _ := strings.Cut(c.line, " ")
	if r := results[program]; r != nil {
		return r
	}
	kind, _, _ := strings.Cut(program, "_")
	return results[kind]
}

// commandTime is how long a command may take that runs some seconds on an idle machine.
const commandTime = 4 * time.Minute

// run runs the command between the hosts of a lab. The client's host is the one of a command that runs alone. Where the client
// is refused because nothing listens yet, both sides run again, the client after a longer time; so do those that were late and lost
// no packet.
func (c command) run(ctx context.Context, lab *commandLab) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	for try, wait := 1, 200*time.Millisecond; ; try, wait = try+1, 2*wait {
		lostBefore := lab.lost()
		err := c.once(ctx, lab, wait)
		refused := err != nil && c.connects() && refusals.MatchString(err.Error())
		if !refused && (try == lateTries || lab.lost() > lostBefore || !wasLate(c.line, err)) || ctx.Err() != nil {
			return err
		}
	}
}

// once runs the command. The client of a program without a TCP port starts after a time.
func (c command) once(ctx context.Context, lab *commandLab, wait time.Duration) error {
	server, client, lostBefore := lab.server, lab.client, lab.lost()
	if c.alone() {
		p, err := client.start(ctx, c.argv(client))
		if err != nil {
			return err
		}
		return c.check("", p)
	}
	serve, request := c.sides(server, client)
	s, err := server.start(ctx, serve)
	if err != nil {
		return err
	}
	if c.connects() {
		time.Sleep(wait)
	} else if err := s.listens(ctx); err != nil {
		s.kill()
		return errors.Join(err, c.check("server", s))
	}
	p, err := client.start(ctx, request)
	if err != nil {
		s.kill()
		return errors.Join(err, c.check("server", s))
	}
	// One without the other waits for ever.
	served := make(chan error, 1)
	go func() {
		err := c.check("server", s)
		if err != nil {
			p.kill()
		}
		served <- err
	}()
	err = c.check("client", p)
	if err != nil {
		s.kill()
	}
	if c.endless() && err == nil {
		s.kill()
		<-served
		return nil
	}
	serverErr := <-served
	if lab.lost() > lostBefore && (serverErr == nil && c.lastACKLost(err) || err == nil && c.lastACKLost(serverErr)) {
		return nil
	}
	return errors.Join(err, serverErr)
}

// endless reports whether the server does not end by itself.
func (c command) endless() bool { return strings.HasPrefix(c.line, "cmtime") }

// lastACKLost reports whether a program lacks the ACK of its last message. The other one has received all messages and ended:
// the examples of libibverbs, unlike perftest, do not wait for each other, so nothing repeats an ACK that was lost. Without
// loss that is an error. perftest over rdma_cm is the same: its last message is one of a connection too.
func (c command) lastACKLost(err error) bool {
	switch {
	case err == nil:
		return false
	case strings.HasPrefix(c.line, "ibv_"):
		return strings.Contains(err.Error(), "Failed status transport retry counter exceeded (12) for wr_id 2")
	}
	return c.connects() && strings.Contains(err.Error(), "Bad wc status 12\n Unable to write to socket/rdma_cm\nFailed to close connection")
}

// invalidData returns an error if a program has printed that data differs. The examples of libibverbs with the option -c print
// that of each page, and exit with status 0.
func invalidData(stdout string) error {
	if strings.Contains(stdout, "invalid data") {
		return errors.New("the program has received invalid data")
	}
	return nil
}

// unsaid matches the errors of rdma_client and rdma_xclient with which they exit with status 0.
var unsaid = regexp.MustCompile(`(?m)^rdma_\w+: `)

// check waits for a program, which must have printed a result, and no invalid data, and exited with status 0. The server of
// some programs prints nothing.
func (c command) check(role string, p process) error {
	stdout, stderr, err := p.wait()
	err = errors.Join(err, invalidData(stdout))
	if err == nil && role != "server" && !c.result().MatchString(stdout) {
		err = fmt.Errorf("no line matches %s", c.result())
	}
	if err == nil && strings.HasPrefix(c.line, "rdma_") && unsaid.MatchString(stderr) {
		err = errors.New("it has failed")
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s%s", c.line, role, err, stdout, stderr)
	}
	return nil
}

// TestCommands runs some commands of the table, without loss and with it. TestCommandTable (tag long) runs all.
func TestCommands(t *testing.T) {
	require.Root(t)
	requireVerbs(t)
	lab := newCommandLab(t)
	for _, loss := range []float64{0, commandLoss} {
		lab.lose(loss)
		for _, c := range commands {
			if !c.quick {
				continue
			}
			t.Run(fmt.Sprintf("loss %g/%s", loss, c.line), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), commandTime)
				defer cancel()
				if err := c.run(ctx, lab); err != nil {
					t.Error(err)
				}
			})
		}
		if lost := lab.lost(); (lost > 0) != (loss > 0) {
			t.Errorf("%d packets are lost, at a loss of %g", lost, loss)
		}
	}
}
