// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/softroce/softroce-xdp/mempool/planner"
)

// learner is the planner of a server. Its samples are next to the state file, and survive a restart with it.
func (s *serveFlags) learner(complaints io.Writer) (*planner.Planner, error) {
	c := planner.Config{Report: func(err error) { fmt.Fprintln(complaints, err) }}
	if s.state != "" {
		c.File = s.state + ".samples"
	}
	return planner.Open(c)
}

// learn has a planner store its samples until ctx ends or the result is called.
func learn(ctx context.Context, p *planner.Planner) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
