// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/load"
)

// deleted deletes the cable. It is plugged in and attached again afterwards.
func deleted(l *Lab) (undo func() error, err error) {
	if out, err := l.Do("ip link del $IF"); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return func() error {
		if err := l.Plug(); err != nil {
			return err
		}
		if err := l.attachB(); err != nil {
			return err
		}
		return l.Attach()
	}, nil
}

// withoutDescriptors leaves the agent no file descriptor more, and sends to a destination that
// is new to it.
func withoutDescriptors(l *Lab) (undo func() error, err error) {
	if out, err := l.Do("prlimit --pid $AGENT --nofile=3:"); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	l.sendToSecond()
	return nil, nil
}

// sendToSecond sends to the second address of host B, where nothing answers.
func (l *Lab) sendToSecond() {
	_, _ = l.traffic.a.Send(context.Background(), load.Flow{To: secondB, Window: 64, GiveUp: 500 * time.Millisecond})
}

// deletedFourTimes deletes the root qdisc, as soon as the agent has put it back, three times more.
func deletedFourTimes(l *Lab) (undo func() error, err error) {
	before, err := l.Force()
	if err != nil {
		return nil, err
	}
	for range 3 {
		if out, err := l.Do("tc qdisc del dev $IF root"); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, out)
		}
		deadline := time.Now().Add(patience)
		for {
			f, err := l.Force()
			if err == nil && f.covers(before) {
				break
			}
			if time.Now().After(deadline) {
				return nil, fmt.Errorf("not repaired within %v: %s, %v", patience, f, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	out, err := l.Do("tc qdisc del dev $IF root")
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return nil, err
}

// withoutMemory takes the agent's address space away. The agent ends once it needs more of it;
// questions of status about its device make that soon.
func withoutMemory(l *Lab) (undo func() error, err error) {
	agent := l.state().AgentPID
	if out, err := l.Do("prlimit --pid $AGENT --as=1000000:"); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	for deadline := time.Now().Add(patience); l.ours(agent); {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("agent %d lives without memory after %v", agent, patience)
		}
		l.Check()
	}
	return nil, nil
}
