// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// hungJudge is a judge whose helper, played by helper, is given little time. Tests of that time run in virtual time.
func hungJudge(t *testing.T, helper func(port net.Conn)) *Judge {
	host, guest := net.Pipe()
	t.Cleanup(func() { host.Close() })
	go helper(guest)
	j := &Judge{VM: &rxepeer.VM{Config: rxepeer.Config{Name: "j"}}, conn: newConn("j", host)}
	j.conn.patience = time.Second
	return j
}

// TestHungHelper has a helper that reads commands and answers none: one command waits, and no other does.
func TestHungHelper(t *testing.T) { synctest.Test(t, hungHelper) }

func hungHelper(t *testing.T) {
	commands := make(chan string, 10)
	j := hungJudge(t, func(port net.Conn) {
		for sc := bufio.NewScanner(port); sc.Scan(); {
			commands <- sc.Text()
		}
	})
	polled := make(chan error, 1)
	go func() {
		_, err := j.conn.do(context.Background(), "poll")
		polled <- err
	}()
	synctest.Wait()
	if _, err := j.do("first"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer to first") {
		t.Errorf("the first command: %v", err)
	}
	if err := testkit.Receive(t, "the end of the command before it", polled); err == nil || !strings.Contains(err.Error(), "no answer to first") {
		t.Errorf("the command before it: %v", err)
	}
	if err := j.doAll([]string{"second", "third"}); err == nil || !strings.Contains(err.Error(), "no answer to first") {
		t.Errorf("commands after it: %v", err)
	}
	if n := len(commands); n != 2 {
		t.Errorf("the helper got %d commands, want the poll and the first", n)
	}
}

// TestHelperThatDoesNotRead has a helper that takes no command.
func TestHelperThatDoesNotRead(t *testing.T) { synctest.Test(t, helperThatDoesNotRead) }

func helperThatDoesNotRead(t *testing.T) {
	j := hungJudge(t, func(net.Conn) {})
	for range 2 {
		// The time for writing and the time for the answer are over at the same moment.
		if _, err := j.do("first"); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want that the time is over", err)
		}
	}
}

// TestRunStatus has a helper whose run ended with a status that verbs do not have.
func TestRunStatus(t *testing.T) {
	j := hungJudge(t, func(port net.Conn) {
		for sc := bufio.NewScanner(port); sc.Scan(); {
			number, _, _ := strings.Cut(sc.Text(), " ")
			fmt.Fprintf(port, "%s ok done=1 errors=1 first_error=999 late=0 ns=1\n", number)
		}
	})
	q := &judgeQP{object: object{j: j}}
	got, err := q.run(t.Context(), Run{CQ: &judgeCQ{object: object{j: j}}}, "run")
	if err == nil || !strings.Contains(err.Error(), "status 999") {
		t.Errorf("got %+v, %v; want an error with the status", got, err)
	}
}
