// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// ended is a test in a test: it records what ended it.
type ended struct {
	testing.TB
	why string
}

func (e *ended) Helper()                        {}
func (e *ended) Errorf(format string, x ...any) { e.Fatalf(format, x...) }
func (e *ended) Fatal(x ...any)                 { e.Fatalf("%s", fmt.Sprint(x...)) }
func (e *ended) Fatalf(format string, x ...any) {
	e.why = fmt.Sprintf(format, x...)
	panic(e)
}

// endOf runs a test in a test, and returns why it ended, or "".
func endOf(t *testing.T, f func(t testing.TB)) string {
	e := &ended{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != e {
				panic(r)
			}
		}()
		f(e)
	}()
	return e.why
}

func TestMust(t *testing.T) {
	broken := errors.New("broken")
	for _, err := range []error{nil, broken} {
		want := ""
		if err != nil {
			want = "broken"
		}
		if got := endOf(t, func(t testing.TB) { testkit.Must(t, err) }); got != want {
			t.Errorf("Must(%v): %q", err, got)
		}
		value := 0
		got := endOf(t, func(t testing.TB) { value = testkit.Must1(7, err)(t) })
		if got != want || (value == 7) != (err == nil) {
			t.Errorf("Must1(%v): %q, %d", err, got, value)
		}
	}
}

// Eventually returns as soon as the condition holds, and ends the test after Patience with the last error.
func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		after := func(d time.Duration) func() bool { return func() bool { return time.Since(start) >= d } }
		if why := endOf(t, func(t testing.TB) { testkit.Eventually(t, "a minute", after(time.Minute)) }); why != "" {
			t.Error(why)
		}
		if late := time.Since(start) - time.Minute; late < 0 || late > 10*time.Millisecond {
			t.Errorf("%v after the condition held", late)
		}
		n := 0
		why := endOf(t, func(t testing.TB) {
			testkit.Eventually(t, "no error", func() error { n++; return fmt.Errorf("call %d", n) })
		})
		if !strings.Contains(why, "no error") || !strings.Contains(why, fmt.Sprintf("call %d", n)) {
			t.Errorf("%d calls, and the test ends by %q", n, why)
		}
		if why := endOf(t, func(t testing.TB) { testkit.Eventually(t, "a year", after(365*24*time.Hour)) }); !strings.Contains(why, "a year") {
			t.Errorf("the test ends by %q", why)
		}
		if waited := time.Since(start) - time.Minute; waited < 2*testkit.Patience || waited > 2*testkit.Patience+time.Second {
			t.Errorf("both failures took %v", waited)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := make(chan int, 1)
		time.AfterFunc(time.Minute, func() { c <- 7 })
		if n := testkit.Receive(t, "seven", c); n != 7 {
			t.Errorf("%d", n)
		}
		if why := endOf(t, func(t testing.TB) { testkit.Receive(t, "another", c) }); !strings.Contains(why, "another") {
			t.Errorf("the test ends by %q", why)
		}
		close(c)
		testkit.Receive(t, "the end", c)
	})
}

// A context outlives the context of the test, for what is registered with Cleanup after it.
func TestContext(t *testing.T) {
	var ctx context.Context
	t.Run("ends with the test", func(t *testing.T) {
		t.Cleanup(func() {
			if !errors.Is(ctx.Err(), context.Canceled) {
				t.Errorf("before the context: %v", ctx.Err())
			}
		})
		ctx = testkit.Context(t)
		t.Cleanup(func() {
			if t.Context().Err() == nil || ctx.Err() != nil {
				t.Errorf("after the context: %v, the context of the test %v", ctx.Err(), t.Context().Err())
			}
		})
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, start := testkit.Context(t), time.Now()
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) || time.Since(start) != testkit.Patience {
			t.Errorf("%v after %v", ctx.Err(), time.Since(start))
		}
	})
}

// Each directory is empty, short and another one, and is removed with the test.
func TestSocketDir(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		t.Run(strings.Repeat("a long name ", 20), func(t *testing.T) {
			dir := testkit.SocketDir(t)
			if len(filepath.Join(dir, strings.Repeat("x", 40))) > 107 || seen[dir] {
				t.Errorf("%s of %v", dir, seen)
			}
			seen[dir] = true
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "socket"), nil, 0o600))
		})
	}
	for dir := range seen {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestUnhex(t *testing.T) {
	if b := testkit.Unhex(t, "00 ff\n\t1234 "); !bytes.Equal(b, []byte{0, 0xff, 0x12, 0x34}) {
		t.Errorf("%x", b)
	}
	for _, text := range []string{"0", "0g"} {
		if endOf(t, func(t testing.TB) { testkit.Unhex(t, text) }) == "" {
			t.Errorf("%q has bytes", text)
		}
	}
}

// A file that differs, has another length or does not exist fails the test. UPDATE=1 writes it.
func TestGolden(t *testing.T) {
	t.Setenv("UPDATE", "")
	path := filepath.Join(t.TempDir(), "golden")
	compare := func(text string) string {
		return endOf(t, func(t testing.TB) { testkit.Golden(t, path, text) })
	}
	if why := compare("a"); !strings.Contains(why, "golden") {
		t.Errorf("no file: %q", why)
	}
	t.Setenv("UPDATE", "1")
	testkit.Golden(t, path, "a\nb\n")
	t.Setenv("UPDATE", "")
	for text, want := range map[string]string{"a\nb\n": "", "a\nc\n": "line 2 of the text: c", "a\nb\n\n": "4 in the text"} {
		if why := compare(text); (why == "") != (want == "") || !strings.Contains(why, want) {
			t.Errorf("%q: %q", text, why)
		}
	}
}

func TestDocNamesFiles(t *testing.T) {
	for text, want := range map[string]string{
		"package a // a.go":      "",
		"package a":              "doc.go does not name a.go",
		"package a // a.go b.go": "doc.go names b.go, which is not there",
	} {
		t.Chdir(t.TempDir())
		for name, b := range map[string]string{"doc.go": text, "a.go": "package a", "a_test.go": "package a", "c_amd64.go": "package a"} {
			testkit.Must(t, os.WriteFile(name, []byte(b), 0o600))
		}
		if got := endOf(t, func(t testing.TB) { testkit.DocNamesFiles(t) }); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
