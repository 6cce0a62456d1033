// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// setup is the first message of an application to its handler. Descriptors: userfaultfd, memfd,
// the read end of the pipe that the application holds open.
type setup struct {
	Config Config
	Store  string
	Start  uint64
}

// request is a later message of the application, and reply the answer to each message.
type request struct {
	Op   string // "stats", "period" or "cause"
	Page int64  // page of "cause"
}

type reply struct {
	Error string `json:",omitempty"` // error of a setup
	Cause cause
	Stats Stats
	Usage Usage
}

// cause is the error of a lost page.
type cause struct {
	Kind int // index in causeErrors
	Text string
}

// causeErrors are the errors that the application tests with errors.Is.
var causeErrors = []error{nil, ErrDeadline, ErrNoRoom}

func causeOf(err error) cause {
	for i, e := range causeErrors {
		if e != nil && errors.Is(err, e) {
			return cause{i, err.Error()}
		}
	}
	return cause{0, err.Error()}
}

// causeError is an error of the handler, in the application.
type causeError struct {
	text string
	kind error
}

func (e *causeError) Error() string { return e.text }
func (e *causeError) Unwrap() error { return e.kind }

// handler serves the faults of one map, in a process of its own.
type handler struct {
	space *space
	mem   *uffdMemory
	size  uint64
	life  int // end of file: the map is closed, or the application has ended
	guard guard
}

// serveHandler returns when the application needs the handler no more.
func serveHandler(socket int, open func(string) (Store, error)) error {
	app, err := connOf(socket)
	if err != nil {
		return err
	}
	var s setup
	fds, err := receive(app, &s, 3)
	if err != nil {
		return err
	}
	store, err := open(s.Store)
	if err != nil {
		return send(app, reply{Error: "store: " + err.Error()})
	}
	err = serveStore(app, &s, fds, store)
	if c, ok := store.(io.Closer); ok { // also if the map was not made: what the store has leased is given back
		err = errors.Join(err, c.Close())
	}
	return err
}

func serveStore(app *net.UnixConn, s *setup, fds []int, store Store) error {
	h, err := newHandler(s, fds, store)
	if err != nil {
		return send(app, reply{Error: err.Error()})
	}
	if err := send(app, reply{}); err != nil {
		return err
	}
	go h.answer(app)
	return h.loop()
}

func newHandler(s *setup, fds []int, store Store) (h *handler, err error) {
	mem := &uffdMemory{u: uffd(fds[0]), memfd: fds[1], start: s.Start}
	h = &handler{mem: mem, size: uint64(s.Config.Size), life: fds[2]}
	h.guard = guard{fds: fds, setup: guardianSetup{Start: s.Start, Size: h.size}}
	if h.space, err = newSpace(mem, &s.Config, store); err != nil {
		return nil, err
	}
	if err := h.guard.start(); err != nil {
		return nil, fmt.Errorf("guardian process: %w", err)
	}
	return h, nil
}

// loop serves faults until the life of the map ends.
func (h *handler) loop() error {
	runtime.LockOSThread()
	spin := spin{several: runtime.GOMAXPROCS(0) > 1}
	buf, faults := make([]byte, 64*messageLen), make([]pageFault, 0, 64)
	poll := []unix.PollFd{{Fd: int32(h.mem.u), Events: unix.POLLIN}, {Fd: int32(h.life), Events: unix.POLLIN}}
	last := time.Now()
	for {
		faults, err := h.mem.u.read(buf, faults[:0])
		if err != nil {
			return err
		}
		if len(faults) > 0 {
			h.serve(faults)
		}
		now := time.Now()
		if now.Sub(last) >= beatPeriod {
			last = now
			h.guard.beat()
		}
		if len(faults) > 0 {
			spin.served(now, h.space.idle())
			continue
		}
		if spin.polls(now) {
			continue
		}
		if _, err := unix.Poll(poll, int(beatPeriod.Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if poll[1].Revents != 0 {
			return nil
		}
	}
}

// serve starts what faults need, or lets the threads go on.
func (h *handler) serve(faults []pageFault) {
	now := time.Now()
	h.space.mu.Lock()
	p := h.space.p
	for _, f := range faults {
		n, m := int64(f.address-h.mem.start)/PageSize, forRead
		if f.write {
			m = forWrite
		}
		resident := p.pages[n].state == stateResident
		lost := p.pages[n].state == stateLost
		_, err := p.access(n, m, now)
		switch {
		case lost:
			h.mem.poison(n)
		case resident && err == nil: // a write to a clean page, or a message that came late
			_ = h.mem.allow(n, m == forWrite)
		}
	}
	h.space.mu.Unlock()
	h.space.flush()
}

// answer answers requests of the application.
func (h *handler) answer(app *net.UnixConn) {
	for {
		var q request
		if _, err := receive(app, &q, 0); err != nil {
			return
		}
		var r reply
		h.space.mu.Lock()
		p := h.space.p
		switch q.Op {
		case "stats":
			r.Stats = p.statistics()
		case "period":
			r.Usage = p.endPeriod()
		case "cause":
			if err := p.causes[q.Page]; err != nil {
				r.Cause = causeOf(err)
			}
		}
		h.space.mu.Unlock()
		if send(app, r) != nil {
			return
		}
	}
}

// guard starts the guardian of a handler, and starts it again if it ends.
type guard struct {
	fds   []int // userfaultfd, memfd, life
	setup guardianSetup
	mu    sync.Mutex
	conn  *net.UnixConn
}

func (g *guard) start() error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(self)
	// With the arguments of this process: a program may have a command of its own for its handlers.
	cmd, conn, err := start(append([]string{"/proc/self/exe"}, os.Args[1:]...), roleGuardian)
	if err != nil {
		return err
	}
	var ready reply
	if err = send(conn, g.setup, g.fds[0], g.fds[2], self); err == nil {
		_, err = receive(conn, &ready, 0)
	}
	if err != nil {
		conn.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return err
	}
	g.mu.Lock()
	g.conn = conn
	g.mu.Unlock()
	go g.restart(cmd, conn)
	return nil
}

// restart waits for the end of a guardian.
func (g *guard) restart(cmd *exec.Cmd, conn *net.UnixConn) {
	err := cmd.Wait()
	conn.Close()
	for {
		life := []unix.PollFd{{Fd: int32(g.fds[2]), Events: unix.POLLIN}}
		if n, _ := unix.Poll(life, 0); n > 0 {
			return // the map has ended, and this process ends as well
		}
		fmt.Fprintf(os.Stderr, "vmm: the guardian process has ended (%v); starting another\n", err)
		if err = g.start(); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// beat shows the guardian that faults are served. It does not wait: a socket that is full shows
// it as well.
func (g *guard) beat() {
	g.mu.Lock()
	defer g.mu.Unlock()
	raw, err := g.conn.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_, _ = unix.SendmsgN(int(fd), []byte{1}, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}
