// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/softroce/softroce-xdp/rocev2/mr/clientmem"
	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// processMemory is the memory of a process that is not in an arena.
type processMemory struct {
	*clientmem.Process
	guard   clientmem.Guard
	revoked bool
	ending  bool   // endFileSystems is at work
	reading bool   // mappings of the process are being read, which may wait for it
	failed  string // reason why the process or its file systems could not be ended, as the log has it
}

// openProcess opens the memory of a process by the three descriptors that it has passed.
func openProcess(fds []int) (*processMemory, error) {
	if len(fds) != 3 {
		return nil, fmt.Errorf("%w: memory of a process is three descriptors, not %d", proto.ErrProtocol, len(fds))
	}
	var own [3]int
	for i, fd := range fds {
		d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			proto.CloseFDs(own[:i])
			return nil, err
		}
		own[i] = d
	}
	p, err := clientmem.OpenProcess(own[0], own[1], own[2])
	if err != nil {
		return nil, err
	}
	return &processMemory{Process: p}, nil
}

func (m *processMemory) close() { _ = m.Process.Close() }

// guard ends processes whose memory takes so long that the engine's thread is no use to others. It
// sleeps while no process has passed its memory.
func (s *Server) guard() {
	const interval = clientmem.GuardInterval * time.Millisecond
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-s.passed:
		}
		for tick.Reset(interval); ; {
			select {
			case <-s.done:
				return
			case <-tick.C:
			}
			if !s.checkMemories() {
				break
			}
		}
	}
}

// checkMemories takes a sample of each process that has passed its memory. It returns false if there is
// none.
func (s *Server) checkMemories() (some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		some = c.checkMemory() || some
	}
	return some
}

// checkMemory takes a sample of the accesses to the memory of a process. It returns false if the process
// has not passed its memory, or has ended.
func (c *session) checkMemory() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.memory
	if m == nil {
		return false
	}
	if !m.guard.Sample(m.Progress(), func() bool { return m.Delays(time.Now()) }) {
		return true
	}
	if !m.revoked {
		m.revoked = true
		c.s.log.Warn("the memory of a process is too slow: it is ended", "pid", c.process.pid, "uid", c.process.uid)
		m.Revoke()
		c.socket.hangUp()
		m.note(c, c.process.kill())
		return true
	}
	m.note(c, c.process.kill())
	if now := m.Progress(); now.Begun != now.Ended && !m.ending {
		m.ending = true
		c.s.all.Go(func() { c.endFileSystems(m) })
	}
	return true
}

// kill ends the process, unless it has ended.
func (p *process) kill() error {
	err := unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	switch {
	case err == nil || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EBADF):
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("SIGKILL: %w: the server needs CAP_KILL", err)
	}
	return fmt.Errorf("SIGKILL: %w", err)
}

// note logs why the device does not get rid of a process, when the reason is new.
func (m *processMemory) note(c *session, err error) {
	if err == nil || err.Error() == m.failed {
		return
	}
	m.failed = err.Error()
	c.s.log.Error("a process whose memory is too slow goes on, and delays all others: end it", "pid", c.process.pid, "uid", c.process.uid, "err", err)
}
