// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// readWait bounds one Read, so that a host sees that the agent lives.
	readWait = 5 * time.Second
	// backlog is how much unread output a command may pile up before it blocks.
	backlog = 4 << 20
	// drainWait is how long output is awaited after a command has ended: a daemon it
	// left behind may hold its stdout open for ever.
	drainWait = time.Second
)

type process struct {
	cmd *exec.Cmd

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	out, err bytes.Buffer
	end      *Output
	timedOut bool
}

func startProcess(args Start) (*process, error) {
	if len(args.Argv) == 0 {
		return nil, errors.New("no command given")
	}
	p := &process{changed: make(chan struct{})}
	p.cmd = exec.Command(args.Argv[0], args.Argv[1:]...)
	p.cmd.Env = append(os.Environ(), args.Env...)
	p.cmd.Dir = args.Dir
	p.cmd.Stdin = bytes.NewReader(args.Stdin)
	p.cmd.Stdout = &stream{p, &p.out}
	p.cmd.Stderr = &stream{p, &p.err}
	p.cmd.WaitDelay = drainWait
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if args.Timeout > 0 {
		time.AfterFunc(args.Timeout, p.expire)
	}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	err := p.cmd.Wait()
	end := &Output{Done: true, ExitCode: p.cmd.ProcessState.ExitCode()}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		end.Signal = ws.Signal().String()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && end.ExitCode == 0 {
		end.ExitCode = -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	end.TimedOut = p.timedOut
	p.end = end
	p.notify()
}

func (p *process) expire() {
	p.mu.Lock()
	running := p.end == nil
	p.timedOut = running
	p.mu.Unlock()
	if running {
		_ = p.signal(int(syscall.SIGKILL)) // it may just have ended, which is as well
	}
}

func (p *process) signal(number int) error {
	return syscall.Kill(-p.cmd.Process.Pid, syscall.Signal(number))
}

// notify wakes all who wait for a change; p.mu is held.
func (p *process) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) read() Output {
	deadline := time.After(readWait)
	for {
		p.mu.Lock()
		got := Output{Stdout: take(&p.out), Stderr: take(&p.err)}
		some := len(got.Stdout)+len(got.Stderr) > 0
		if p.end != nil && p.out.Len()+p.err.Len() == 0 {
			end := *p.end
			end.Stdout, end.Stderr = got.Stdout, got.Stderr
			p.mu.Unlock()
			return end
		}
		if some {
			p.notify() // there is room in the buffers again
			p.mu.Unlock()
			return got
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			return Output{}
		}
	}
}

func take(b *bytes.Buffer) []byte {
	return bytes.Clone(b.Next(MaxChunk))
}

// stream collects one of a command's outputs and blocks it when nobody reads.
type stream struct {
	p   *process
	buf *bytes.Buffer
}

func (s *stream) Write(b []byte) (int, error) {
	s.p.mu.Lock()
	for s.buf.Len() > backlog {
		changed := s.p.changed
		s.p.mu.Unlock()
		<-changed
		s.p.mu.Lock()
	}
	s.buf.Write(b)
	s.p.notify()
	s.p.mu.Unlock()
	return len(b), nil
}
