// SPDX-License-Identifier: Apache-2.0

package rdma

import (
	"context"
	"io"
	"time"

	"github.com/softroce/softroce-xdp/rocev2/rdma/client"
)

// The calls of package verbs and of a cm.Session have no context. A device in another process answers them late if
// it limits the calls of this process, and not at all while it is stopped. They run in a goroutine, so that the
// methods of this package return when their context ends.

// within returns what do returns, or the error of ctx if it ends first. What do returns later goes to undo.
func within[T any](ctx context.Context, do func() (T, error), undo func(T)) (T, error) {
	if ctx.Done() == nil {
		return do()
	}
	var v T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = do()
	}()
	select {
	case <-done:
		return v, err
	case <-ctx.Done():
	}
	go func() {
		<-done
		if err == nil && undo != nil {
			undo(v)
		}
	}()
	var none T
	return none, ctx.Err()
}

// closeLate is what within does with a connection or a listener that nobody waits for any more.
func closeLate[T io.Closer](c T) { _ = c.Close() }

// ErrNoAnswer: the device server has not answered Open within 30 s, or Close within ten seconds. What was to be
// released is released when it answers.
var ErrNoAnswer = client.ErrNoAnswer

// endLimit is the longest time of Bounded: longer than the waits in Conn.Close.
const endLimit = 10 * time.Second

// Bounded returns what do returns, which ends something, or ErrNoAnswer after ten seconds. What has begun then goes on. The
// calls of package verbs that release a resource have no context: a device in another process does not answer them while
// it is stopped.
func Bounded(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	t := time.NewTimer(endLimit)
	defer t.Stop()
	select {
	case err := <-done:
		return err
	case <-t.C:
		return ErrNoAnswer
	}
}
