// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Error is what the helper said to a command.
type Error struct {
	Judge   string
	Command string // the line
	Errno   syscall.Errno
	Text    string
}

func (e *Error) Error() string { return fmt.Sprintf("judge %s: %s (%s)", e.Judge, e.Text, e.Command) }

// Unwrap lets errors.Is find the errno.
func (e *Error) Unwrap() error { return e.Errno }

// answering is how long the helper may work on one command. To destroy some queue pairs takes most
// of a minute.
const answering = 2 * time.Minute

// conn asks the helper: lines out, answers in, matched by number.
type conn struct {
	name     string
	patience time.Duration // Longest time of the helper for a command that does not wait, and for taking commands.

	write sync.Mutex
	w     io.Writer

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan string
	broken  error
}

func newConn(name string, rw io.ReadWriter) *conn {
	c := &conn{name: name, patience: answering, w: rw, waiting: map[uint64]chan string{}}
	hello := make(chan string, 1)
	c.waiting[0] = hello
	go c.read(rw)
	return c
}

// read hands out the answers until the port closes.
func (c *conn) read(r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		number, rest, _ := strings.Cut(sc.Text(), " ")
		id, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			c.fail(fmt.Errorf("judge %s: unexpected answer %q", c.name, sc.Text()))
			return
		}
		c.mu.Lock()
		ch := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if ch != nil { // nil: its caller has gone
			ch <- rest
		}
	}
	err := sc.Err()
	if err == nil {
		err = io.EOF
	}
	c.fail(fmt.Errorf("judge %s: the port closed: %w", c.name, err))
}

// fail ends all calls that wait and any that come.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken == nil {
		c.broken = err
	}
	for id, ch := range c.waiting {
		close(ch)
		delete(c.waiting, id)
	}
}

func (c *conn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// hello waits for the helper's first line.
func (c *conn) hello(ctx context.Context) error {
	c.mu.Lock()
	ch := c.waiting[0]
	c.mu.Unlock()
	if ch == nil {
		return c.failure() // nil if the line is there already
	}
	_, err := c.await(ctx, "hello", ch)
	return err
}

// do sends one command and returns the fields of its answer.
func (c *conn) do(ctx context.Context, format string, args ...any) (fields, error) {
	all, err := c.doAll(ctx, []string{fmt.Sprintf(format, args...)})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// doAll sends commands at once and waits for the answers. The helper works on all of them, also
// after one that fails, whose error is returned.
func (c *conn) doAll(ctx context.Context, lines []string) ([]fields, error) {
	chans := make([]chan string, len(lines))
	var out strings.Builder
	c.write.Lock()
	c.mu.Lock()
	if c.broken != nil {
		c.mu.Unlock()
		c.write.Unlock()
		return nil, c.broken
	}
	for i, line := range lines {
		c.last++
		chans[i] = make(chan string, 1)
		c.waiting[c.last] = chans[i]
		fmt.Fprintf(&out, "%d %s\n", c.last, line)
	}
	c.mu.Unlock()
	err := c.send(out.String())
	c.write.Unlock()
	if err != nil {
		c.fail(fmt.Errorf("judge %s: %w", c.name, err))
	}
	answers := make([]fields, len(lines))
	var errs []error
	for i, line := range lines {
		answers[i], err = c.await(ctx, line, chans[i])
		errs = append(errs, err)
	}
	return answers, errors.Join(errs...)
}

// send writes commands. A helper that does not read them would block it for ever.
func (c *conn) send(lines string) error {
	if w, ok := c.w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		if err := w.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(c.w, lines)
	return err
}

// ask sends commands that do not wait in the helper, at once. After one that is not answered, all others fail at
// once: a case has many commands, and each of them would wait as long.
func (c *conn) ask(lines []string) ([]fields, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	all, err := c.doAll(ctx, lines)
	if errors.Is(err, context.DeadlineExceeded) {
		c.fail(fmt.Errorf("the helper has not answered for %v: %w", c.patience, err))
	}
	return all, err
}

func (c *conn) await(ctx context.Context, line string, ch chan string) (fields, error) {
	if len(line) > 300 {
		line = line[:300] + "..."
	}
	select {
	case answer, ok := <-ch:
		if !ok {
			return nil, fmt.Errorf("%w (waiting for the answer to %s)", c.failure(), line)
		}
		return c.parse(line, answer)
	case <-ctx.Done():
		return nil, fmt.Errorf("judge %s: no answer to %s: %w", c.name, line, ctx.Err())
	}
}

// parse reads "ok key=value ..." or "error ERRNO TEXT".
func (c *conn) parse(line, answer string) (fields, error) {
	verdict, rest, _ := strings.Cut(answer, " ")
	switch verdict {
	case "ok":
		return strings.Fields(rest), nil
	case "error":
		number, text, _ := strings.Cut(rest, " ")
		if n, err := strconv.Atoi(number); err == nil {
			return nil, &Error{Judge: c.name, Command: line, Errno: syscall.Errno(n), Text: text}
		}
	}
	return nil, fmt.Errorf("judge %s: unexpected answer %q to %s", c.name, answer, line)
}

// fields are key=value words of an answer; a key may occur more than once.
type fields []string

func (f fields) all(key string) []string {
	var values []string
	for _, word := range f {
		if k, v, ok := strings.Cut(word, "="); ok && k == key {
			values = append(values, v)
		}
	}
	return values
}

func (f fields) text(key string) (string, error) {
	if v := f.all(key); len(v) == 1 {
		return v[0], nil
	}
	return "", fmt.Errorf("judge: answer %q has not one %s", []string(f), key)
}

func (f fields) number(key string) (uint64, error) {
	v, err := f.text(key)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(v, 0, 64)
}

// into stores numbers by their keys.
func (f fields) into(want map[string]*uint64) error {
	for key, to := range want {
		n, err := f.number(key)
		if err != nil {
			return err
		}
		*to = n
	}
	return nil
}
