// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/softroce/softroce-xdp/testenv/lab/rxepeer"
)

// Bench runs cases between two sides. It is not for use by several goroutines.
type Bench struct {
	A, B Side
	// Impair sets what happens to packets both ways, Link.Netem. Nil: no case may ask for it.
	Impair func(ctx context.Context, netem string) error
	// HostDrops counts the packets that were dropped so far in front of a side that did not run
	// soon enough to take them. Nil: no such packet is known.
	HostDrops func() (uint64, error)
	// Lost counts messages of UC and UD that did not arrive although the host dropped nothing. They
	// are sent again, on a new link, twice.
	Lost int
	// Spoilt counts those that did not arrive while the host dropped packets. They are sent again, too.
	Spoilt int

	link  Link
	ends  [2]*end
	open  bool
	netem string
	seed  uint64
}

// ImpairBetween returns an Impair that works inside machines: at the egress of two, or at both
// directions of one whose peer is no machine.
func ImpairBetween(vms ...*rxepeer.VM) func(context.Context, string) error {
	return func(ctx context.Context, netem string) error {
		n := rxepeer.Netem{Egress: netem}
		if len(vms) == 1 {
			n.Ingress = netem
		}
		var errs []error
		for _, vm := range vms {
			errs = append(errs, vm.SetNetem(ctx, n))
		}
		return errors.Join(errs...)
	}
}

// CaseTimeout bounds one case, which takes a second on an idle machine. A helper that hangs makes it longer, by the
// time of its first command without an answer.
const CaseTimeout = time.Minute

// mostSpoilt bounds the repetitions of one case for the host's sake: a side that never takes
// what arrives is at fault itself.
const mostSpoilt = 10

// closing is how long it may take to end the helper, or to take the impairment away.
const closing = time.Minute

// Run runs one case; nil means that all that the case says came true, data byte for byte. After an
// error the link is made anew.
func (b *Bench) Run(ctx context.Context, c Case) error {
	for again, spoilt := 2, 0; ; {
		before, err := b.hostDrops()
		if err != nil {
			return err
		}
		err = b.run(ctx, c)
		if !errors.Is(err, errLost) {
			return err
		}
		after, dropErr := b.hostDrops()
		if dropErr != nil {
			return errors.Join(err, dropErr)
		}
		if after > before && spoilt < mostSpoilt {
			spoilt++
			b.Spoilt++
			continue
		}
		if again == 0 {
			return err
		}
		again--
		b.Lost++
	}
}

func (b *Bench) hostDrops() (uint64, error) {
	if b.HostDrops == nil {
		return 0, nil
	}
	return b.HostDrops()
}

func (b *Bench) run(ctx context.Context, c Case) error {
	ctx, cancel := context.WithTimeout(ctx, CaseTimeout)
	defer cancel()
	err := b.use(ctx, c.Link)
	if err == nil {
		b.seed++
		from, to := b.ends[0], b.ends[1]
		if c.FromB {
			from, to = to, from
		}
		e := &exchange{Case: c, from: from, to: to, seed: b.seed << 16}
		err = e.run(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w%s", c.Name(), err, b.states()), b.drop())
	}
	return nil
}

// states tells how the queue pairs are after a failure, as far as they can say.
func (b *Bench) states() string {
	if !b.open {
		return ""
	}
	var s strings.Builder
	for _, e := range b.ends {
		a, err := e.qp.Query()
		fmt.Fprintf(&s, "; %s's QP %d: %v", e.side.Name(), e.qp.QPN(), a.State)
		if err != nil {
			fmt.Fprintf(&s, " (%v)", err)
		}
	}
	return s.String()
}

// use makes the link unless it is there.
func (b *Bench) use(ctx context.Context, l Link) error {
	if b.open && b.link == l {
		return nil
	}
	if err := b.drop(); err != nil {
		return err
	}
	if l.Netem != b.netem {
		if b.Impair == nil {
			return errors.New("oracle: the case wants impairment, and Bench.Impair is nil")
		}
		if err := b.Impair(ctx, l.Netem); err != nil {
			return err
		}
		b.netem = l.Netem
	}
	ends, err := connectPair(b.A, b.B, l, peerRights, nil)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	b.link, b.ends, b.open = l, ends, true
	return nil
}

// drop takes the link down.
func (b *Bench) drop() error {
	if !b.open {
		return nil
	}
	b.open = false
	return errors.Join(b.ends[0].close(), b.ends[1].close())
}

// Close takes down the link and the impairment.
func (b *Bench) Close() error {
	err := b.drop()
	if b.netem == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	b.netem = ""
	return errors.Join(err, b.Impair(ctx, ""))
}
