// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
	"github.com/softroce/softroce-xdp/testenv/lab/topo"
)

// taskEnv has the task of a process as JSON.
const taskEnv = "SOFTROCE_CONNECTIONS"

// task is what a process does.
type task struct {
	RunDir string
	Listen string // an address, or empty: the process dials
	Dial   string

	Rounds, Parallel int           // connections one after the other, by so many goroutines at once
	Deadline         time.Duration // longest time of a connection: from the call of Dial until the answer has arrived
}

// progress is printed by a process that dials at the end of each part of its rounds, and by a listener when it is
// asked.
type progress struct {
	Done       int    // connections that succeeded and were closed
	Failed     int    // connections that failed
	Error      string // the first one
	Goroutines int

	// The fields below are those of a process that dials.
	Late    int           // connections, failed or not, that took longer than their deadline
	Slowest time.Duration // connection of this part
	Elapsed time.Duration // time since the first call of Dial
	Ended   bool          // nothing follows
}

// count counts a connection.
func (p *progress) count(err error) {
	if err == nil {
		p.Done++
		return
	}
	if p.Failed++; p.Error == "" {
		p.Error = err.Error()
	}
}

func (p *progress) print() {
	p.Goroutines = runtime.NumGoroutine()
	b, _ := json.Marshal(p)
	fmt.Println(string(b))
}

// parts is how often a process reports its progress.
const parts = 100

// backlog of the listener: all requests that come at once.
const backlog = 1024

// Main runs a process of a load and ends it. It returns in processes that have no task.
func Main() {
	v, ok := os.LookupEnv(taskEnv)
	if !ok {
		return
	}
	var t task
	err := json.Unmarshal([]byte(v), &t)
	if err == nil {
		err = t.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (t *task) run() error {
	ctx := context.Background()
	dev, err := rdma.Open(ctx, topo.IfName, rdma.WithConfig(client.Config{RunDir: t.RunDir}))
	if err != nil {
		return err
	}
	defer dev.Close()
	if t.Listen != "" {
		return t.listen(ctx, dev)
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	if in.Scan() {
		t.dial(ctx, dev)
		in.Scan() // the process is measured at its end, too
	}
	return nil
}

// listen accepts connections until the standard input ends. For each line it prints its progress.
func (t *task) listen(ctx context.Context, dev verbs.Device) error {
	l, err := rdma.Listen(ctx, dev, t.Listen, rdma.WithBacklog(backlog))
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println(l.Addr())
	var mu sync.Mutex
	var p progress
	go func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			go func() {
				err := errors.Join(echo(ctx, c), c.Close())
				mu.Lock()
				defer mu.Unlock()
				p.count(err)
			}()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		mu.Lock()
		p.print()
		mu.Unlock()
	}
	return nil
}

// echo sends messages back until the peer closes the connection.
func echo(ctx context.Context, c *rdma.Conn) error {
	for {
		m, err := c.RecvMessage(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.Send(ctx, m.Bytes())
			m.Release()
		}
		if err != nil {
			return err
		}
	}
}

// dial makes the connections of all rounds, and prints its progress.
func (t *task) dial(ctx context.Context, dev verbs.Device) {
	var p progress
	start := time.Now()
	for round := 1; round <= t.Rounds; round++ {
		t.round(ctx, dev, &p)
		if p.Ended = round == t.Rounds; p.Ended || round*parts/t.Rounds != (round-1)*parts/t.Rounds {
			p.Elapsed = time.Since(start)
			p.print()
			p.Slowest = 0
		}
	}
}

// round makes connections in parallel. None is closed before all have had their answer.
func (t *task) round(ctx context.Context, dev verbs.Device, p *progress) {
	var answered, all sync.WaitGroup
	var mu sync.Mutex
	answered.Add(t.Parallel)
	for range t.Parallel {
		all.Go(func() {
			begin := time.Now()
			c, err := t.connect(ctx, dev)
			took := time.Since(begin)
			answered.Done()
			answered.Wait()
			if err == nil {
				err = c.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			p.Slowest = max(p.Slowest, took)
			if took > t.Deadline {
				p.Late++
			}
			p.count(err)
		})
	}
	all.Wait()
}

// connect dials, and waits for the answer to a message.
func (t *task) connect(ctx context.Context, dev verbs.Device) (*rdma.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	c, err := rdma.Dial(ctx, dev, t.Dial)
	if err != nil {
		return nil, err
	}
	question, answer := []byte("hello"), make([]byte, 64)
	n := 0
	if err = c.Send(ctx, question); err == nil {
		n, err = c.Recv(ctx, answer)
	}
	if err == nil && string(answer[:n]) != string(question) {
		err = fmt.Errorf("the answer to %q is %q", question, answer[:n])
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
