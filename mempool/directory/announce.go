// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"errors"
	"reflect"
	"time"
)

// Every is how often Announce renews an entry and looks whether it has changed.
const Every = time.Second

// answerTime is how long Announce waits for an answer of the directory.
const answerTime = 3 * time.Second

// Announce keeps the entry of a server up to date until ctx ends, and ends it then. The first error is
// returned: the name is taken, for example, or the directory does not answer. Later ones are passed to report,
// once until it works again (nil); Announce repeats what failed. An entry that has expired is made again.
func Announce(ctx context.Context, d Directory, now func() Server, report func(error)) (wait func(), err error) {
	a := &announcer{d: d, now: now, report: report}
	if err := a.step(ctx); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.run(ctx)
	}()
	return func() { <-done }, nil
}

type announcer struct {
	d         Directory
	now       func() Server
	report    func(error)
	entry     Entry // nil: there is none
	published Server
	failed    bool
}

func (a *announcer) run(ctx context.Context) {
	t := time.NewTicker(Every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			a.end()
			return
		case <-t.C:
		}
		err := a.step(ctx)
		if ctx.Err() != nil {
			continue
		}
		if failed := err != nil; failed != a.failed {
			a.failed = failed
			a.report(err)
		}
	}
}

// step brings the entry up to date.
func (a *announcer) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s := a.now()
	var err error
	switch {
	case a.entry == nil:
		var e Entry
		if e, err = a.d.Add(ctx, s); err != nil {
			return err
		}
		a.entry = e
	case reflect.DeepEqual(s, a.published):
		err = a.entry.Renew(ctx)
	default:
		if err = a.entry.Replace(ctx, s); err == nil {
			err = a.entry.Renew(ctx)
		}
	}
	if errors.Is(err, ErrExpired) {
		a.entry = nil
		return a.step(ctx)
	}
	if err == nil {
		a.published = s
	}
	return err
}

func (a *announcer) end() {
	if a.entry == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	_ = a.entry.Close(ctx) // it ends by itself
}
