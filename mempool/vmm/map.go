// SPDX-License-Identifier: Apache-2.0

package vmm

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// MapConfig is the size of a map and how its pages are stored.
type MapConfig struct {
	Config
	// Store is passed to the function that the program gave to Main, in the handler process.
	Store string
	// Command is the program that calls Main, with its arguments; nil is this program.
	Command []string
	// StartTimeout is how long the handler may take until it serves faults, its store opened; 0 is
	// DefaultStartTimeout.
	StartTimeout time.Duration
}

// DefaultStartTimeout is the StartTimeout of a MapConfig without one.
const DefaultStartTimeout = 30 * time.Second

// Map is memory as a plain byte slice. A page that is not local is brought when it is accessed,
// by a handler process; the thread of the access waits meanwhile. See Try for pages that cannot
// be had.
type Map struct {
	bytes  []byte
	size   int64
	memfd  int
	life   int // write end of a pipe; handler and guardian end when it is closed
	cmd    *exec.Cmd
	conn   *net.UnixConn
	callMu sync.Mutex // one request to the handler at a time

	mu     sync.RWMutex // u is open while it is read-locked and not closed
	u      uffd         // userfaultfd, never closed before the memory is gone, see uffd
	closed atomic.Bool
	dead   atomic.Bool   // the handler has ended
	ended  chan struct{} // closed by Close
	reaped chan struct{} // closed when the handler's end was seen
}

// NewMap returns a map of zeroes, and starts its handler. The error wraps ErrUnsupported if the
// kernel or the rights of the process do not allow it.
func NewMap(c MapConfig) (*Map, error) {
	if os.Getenv(roleEnv) != "" {
		return nil, errors.New("vmm: this process was started as a handler; call vmm.Main first in main")
	}
	config, err := c.Config.complete()
	if err != nil {
		return nil, err
	}
	c.Config = config
	if os.Getpagesize() != PageSize {
		return nil, fmt.Errorf("vmm: %w: pages of %d bytes; a map needs %d", ErrUnsupported, os.Getpagesize(), PageSize)
	}
	if len(c.Command) == 0 {
		c.Command = []string{"/proc/self/exe"}
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = DefaultStartTimeout
	}
	m := &Map{size: c.Size, memfd: -1, life: -1, u: -1, ended: make(chan struct{}), reaped: make(chan struct{})}
	if err := m.open(&c); err != nil {
		m.release()
		return nil, err
	}
	maps.add(m)
	go m.watch()
	return m, nil
}

func (m *Map) open(c *MapConfig) (err error) {
	if m.u, err = newUFFD(); err != nil {
		return err
	}
	if m.memfd, err = unix.MemfdCreate("softroce-vmm", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return fmt.Errorf("vmm: memfd: %w", err)
	}
	if err = unix.Ftruncate(m.memfd, m.size); err != nil {
		return fmt.Errorf("vmm: memfd of %d bytes: %w", m.size, err)
	}
	if _, err = unix.FcntlInt(uintptr(m.memfd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return fmt.Errorf("vmm: memfd: %w", err)
	}
	m.bytes, err = unix.Mmap(m.memfd, 0, int(m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("vmm: %d bytes of address space: %w", m.size, err)
	}
	// A child process that reads a missing page would fill it with zeroes, for all.
	if err = unix.Madvise(m.bytes, unix.MADV_DONTFORK); err != nil {
		return fmt.Errorf("vmm: madvise: %w", err)
	}
	_ = unix.Madvise(m.bytes, unix.MADV_NOHUGEPAGE) // EINVAL: a kernel without huge pages
	if err = m.u.register(addressOf(m.bytes), uint64(m.size)); err != nil {
		return fmt.Errorf("vmm: userfaultfd of the memory: %w", err)
	}
	return m.startHandler(c)
}

func (m *Map) startHandler(c *MapConfig) error {
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("vmm: pipe: %w", err)
	}
	defer unix.Close(pipe[0])
	m.life = pipe[1]
	var err error
	if m.cmd, m.conn, err = start(c.Command, roleHandler); err != nil {
		return fmt.Errorf("vmm: fault handler %q: %w", c.Command, err)
	}
	s := setup{Config: c.Config, Store: c.Store, Start: addressOf(m.bytes)}
	var r reply
	_ = m.conn.SetDeadline(time.Now().Add(c.StartTimeout))
	if err = send(m.conn, s, int(m.u), m.memfd, pipe[0]); err == nil {
		_, err = receive(m.conn, &r, 0)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("vmm: fault handler %q: no answer after %v: %w", c.Command, c.StartTimeout, err)
	case err != nil:
		return fmt.Errorf("vmm: fault handler %q: %w; is vmm.Main its first call?", c.Command, err)
	case r.Error != "":
		m.conn.Close()
		m.awaitHandler() // it closes its store first, which gives back what it has leased
		return fmt.Errorf("vmm: fault handler: %s", r.Error)
	}
	return nil
}

// awaitHandler waits for the end of the handler, and ends it after callTimeout.
func (m *Map) awaitHandler() {
	kill := time.AfterFunc(callTimeout, func() { _ = m.cmd.Process.Kill() })
	defer kill.Stop()
	_ = m.cmd.Wait()
}

// Bytes returns the memory. It must not be used after Close.
func (m *Map) Bytes() []byte { return m.bytes }

// Err returns nil, or ErrHandler or ErrClosed once pages that are not local cannot be had.
func (m *Map) Err() error {
	switch {
	case m.closed.Load():
		return ErrClosed
	case m.dead.Load():
		return ErrHandler
	}
	return nil
}

// Stats returns the counters, which the handler has.
func (m *Map) Stats() (Stats, error) {
	r, err := m.call(request{Op: "stats"})
	return r.Stats, err
}

// EndPeriod returns the usage since the last call, or since the map was made.
func (m *Map) EndPeriod() (Usage, error) {
	r, err := m.call(request{Op: "period"})
	return r.Usage, err
}

// callTimeout is how long a handler may take to answer a request.
const callTimeout = 10 * time.Second

func (m *Map) call(q request) (reply, error) {
	m.callMu.Lock()
	defer m.callMu.Unlock()
	var r reply
	if err := m.Err(); err != nil {
		return r, fmt.Errorf("vmm: %w", err)
	}
	_ = m.conn.SetDeadline(time.Now().Add(callTimeout))
	err := send(m.conn, q)
	if err == nil {
		_, err = receive(m.conn, &r, 0)
	}
	if err != nil {
		if !m.closed.Load() {
			m.dead.Store(true) // its end is seen here before watch runs
		}
		return r, fmt.Errorf("vmm: %w: %w", ErrHandler, err)
	}
	return r, nil
}

// cause returns why a page is lost.
func (m *Map) cause(page int64) error {
	r, err := m.call(request{Op: "cause", Page: page})
	switch {
	case m.closed.Load():
		return ErrClosed
	case err != nil:
		return ErrHandler
	case r.Cause.Text == "":
		return errors.New("the page is lost")
	}
	return &causeError{r.Cause.Text, causeErrors[r.Cause.Kind]}
}

// watch waits for the end of the handler. The guardian has taken over then; if it was killed as
// well, this goroutine does its work as far as the garbage collector lets it.
func (m *Map) watch() {
	_ = m.cmd.Wait()
	m.dead.Store(true)
	close(m.reaped)
	m.withUFFD(func(start, n uint64) { poisonRange(m.u, start, n) })
	tick := time.NewTicker(wakePeriodMillis * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-m.ended:
			return
		case <-tick.C:
			m.withUFFD(func(start, n uint64) { _ = m.u.wake(start, n) })
		}
	}
}

func (m *Map) withUFFD(f func(start, n uint64)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.closed.Load() {
		f(addressOf(m.bytes), uint64(m.size))
	}
}

// Close ends the map and its processes. Accesses that wait for a page, and later ones, are
// ErrClosed inside of Try, and end the program elsewhere. The content is not written to the store.
// The address range stays reserved, without memory, so that no such access reads other data.
func (m *Map) Close() error {
	m.mu.Lock()
	if m.closed.Swap(true) {
		m.mu.Unlock()
		return nil
	}
	// The order matters: threads that wait find the memory gone, not empty.
	err := reserve(m.bytes)
	if err == nil {
		_ = m.u.wake(addressOf(m.bytes), uint64(m.size))
		_ = unix.Close(int(m.u))
	}
	m.mu.Unlock()
	close(m.ended)
	_ = unix.Close(m.life)
	_ = unix.Close(m.memfd)
	select {
	case <-m.reaped:
	case <-time.After(callTimeout):
		_ = m.cmd.Process.Kill()
		<-m.reaped
	}
	m.conn.Close()
	return err
}

// release frees what open has made before it failed. No thread waits for a page.
func (m *Map) release() {
	if m.life >= 0 {
		_ = unix.Close(m.life)
	}
	if m.cmd != nil {
		m.conn.Close()
		_ = m.cmd.Process.Kill()
		_ = m.cmd.Wait()
	}
	if m.bytes != nil {
		_ = unix.Munmap(m.bytes)
	}
	if m.memfd >= 0 {
		_ = unix.Close(m.memfd)
	}
	if m.u >= 0 {
		_ = unix.Close(int(m.u))
	}
}
