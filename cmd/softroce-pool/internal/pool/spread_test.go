// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/softroce/softroce-xdp/mempool/spread"
)

// exclusive is a writer that notes calls at the same time.
type exclusive struct {
	inside  sync.Mutex
	overlap atomic.Bool
}

func (w *exclusive) Write(b []byte) (int, error) {
	if !w.inside.TryLock() {
		w.overlap.Store(true)
		return len(b), nil
	}
	defer w.inside.Unlock()
	for range 10 {
		runtime.Gosched()
	}
	return len(b), nil
}

// What the connections report, by any goroutine, does not get in between the lines of the periods.
func TestSpreaderPrintsOneByOne(t *testing.T) {
	var out exclusive
	j := spreader{Out: &out}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 500 {
				j.report("s1", nil)
				j.report("s1", errors.New("it is gone"))
			}
		})
	}
	for range 500 {
		if err := j.print(spreadLine{Status: spread.Status{}}); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if out.overlap.Load() {
		t.Error("two goroutines print at the same time")
	}
}

// Ctrl-C ends the node without an error, but not where it has just found wrong data.
func TestSpreaderInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wrong := fmt.Errorf("page 7: %w", errData)
	for _, x := range []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), nil, nil}, {t.Context(), wrong, errData}, {ctx, nil, nil}, {ctx, ctx.Err(), nil}, {ctx, wrong, errData},
	} {
		if got := unlessInterrupted(x.ctx, x.err); !errors.Is(got, x.want) || (got == nil) != (x.want == nil) {
			t.Errorf("%v: %v", x.err, got)
		}
	}
}
