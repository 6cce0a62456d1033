// SPDX-License-Identifier: Apache-2.0

package published

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func xpassNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Fatalf("%s: got %.9g, want %.9g", what, got, want)
	}
}

// params: a million credits a second, one per microsecond.
func xpassParams() ExpressPassParams {
	p := ExpressPassDefault(1622*8e6, CreditPacketBytes, 1538)
	p.Jitter = 0
	return p
}

func TestExpressPassDefaultFillsTheLink(t *testing.T) {
	p := xpassParams()
	xpassNear(t, "credits per second", p.MaxPerSec, 1e6)
	xpassNear(t, "share of the link", CreditShare(CreditPacketBytes, 1538), 84.0/1622)
}

func TestExpressPassStartRateFollowsTheRequest(t *testing.T) {
	p := xpassParams()
	for _, c := range []struct {
		packets int
		want    float64
	}{{1000, 5e5}, {40, 5e5}, {10, 1.25e5}, {1, 1.25e4}, {0, 1.25e4}} {
		c2 := NewCreditReceiver(&p, 100_000)
		c2.Request(0, c.packets)
		xpassNear(t, "rate", c2.Rate(), c.want)
	}
}

func TestExpressPassFeedback(t *testing.T) {
	p := xpassParams()
	c := NewCreditReceiver(&p, 10_000)
	c.Request(0, 100)
	seq, next := c.Credit(0, 0)
	if seq != 0 || next != 2000 {
		t.Fatalf("first credit %d, next at %d; want 0 and 2000", seq, next)
	}
	for range 4 {
		_, next = c.Credit(next, 0)
	}
	for seq := range uint32(5) {
		c.Data(10_000, seq)
	}
	// No loss: w does not grow on the first good round; 1/16 of the way.
	c.Credit(10_000, 0)
	xpassNear(t, "first good round: w", c.W(), 1.0/16)
	r := 1e6/16 + 5e5*15/16
	xpassNear(t, "rate", c.Rate(), r)
	c.Data(20_000, 5)
	c.Credit(30_000, 0)
	w := 1.0/16 + .05
	xpassNear(t, "second good round: w", c.W(), w)
	xpassNear(t, "rate", c.Rate(), w*1e6+(1-w)*r)
	// CreditReceiver 6..9 lost, 10 came: 1 of 5 in 15 us, above any target.
	for range 4 {
		c.Credit(31_000, 0)
	}
	target := (1 - c.Rate()/1e6) * .125
	c.Data(40_000, 10)
	c.Credit(45_000, 0)
	xpassNear(t, "bad round: what got through, and a little", c.Rate(), max(1e9/15_000*(1+target), 1e9/c.rtt))
	xpassNear(t, "w halves", c.W(), w/2)
	if c.mayRaise {
		t.Error("w may grow right after a bad round")
	}
}

func TestExpressPassRTTIsTimedOnOneCreditAtATime(t *testing.T) {
	p := xpassParams()
	c := NewCreditReceiver(&p, 10_000)
	c.Request(0, 100)
	for now := int64(0); now < 5000; now += 1000 {
		c.Credit(now, 0)
	}
	c.Data(20_000, 0) // timed: 20 us
	xpassNear(t, "rtt", c.rtt, .8*10_000+.2*20_000)
	c.Data(90_000, 1)
	xpassNear(t, "credit 1 was not timed", c.rtt, 12_000)
	c.Credit(100_000, 0) // number 5, timed
	c.Credit(101_000, 0) // number 6
	c.Data(900_000, 6)   // 5 was lost
	xpassNear(t, "a lost credit times nothing", c.rtt, 12_000)
	if c.timing {
		t.Error("still waits for a lost credit")
	}
}

func TestExpressPassSenderStopsWhenEnoughIsInFlight(t *testing.T) {
	p := xpassParams()
	s := NewCreditSender(&p)
	if s.Start(0) != AskCredits || s.Start(1) != AskNoCredit {
		t.Fatal("one request per start")
	}
	if s.Timer() != p.RetryNs {
		t.Fatalf("timer %d", s.Timer())
	}
	if s.Expire(p.RetryNs, 30) != AskCredits {
		t.Fatal("a request without answer is repeated")
	}
	now, left := p.RetryNs+10_000, 30 // round trip 10 us
	for ; left > 10; left-- {
		use, ask := s.Credit(now, left)
		if !use {
			t.Fatal("credit with data waiting not used")
		}
		if ask == AskCreditStop {
			break
		}
		now += 1000
	}
	// The round ended at its 11th credit with 19 packets left, 11 < 19: go on.
	// The next ended 10 later, with 9 left and 10 credits counted.
	if left != 11 && left != 10 {
		t.Fatalf("stopped with %d left", left)
	}
	for left > 0 {
		use, ask := s.Credit(now, left)
		if !use {
			t.Fatal("not used")
		}
		left--
		if left == 0 && s.state == receiving {
			t.Fatalf("nothing left, asked %d and not stopping", ask)
		}
	}
	if use, _ := s.Credit(now, 0); use || s.Wasted != 1 {
		t.Fatal("a credit without data is wasted")
	}
	if s.Expire(s.Timer(), 0) != AskNoCredit || s.state != closed {
		t.Fatal("not closed")
	}
	if s.Start(now+1_000_000) != AskCredits {
		t.Fatal("closed sender does not ask for new data")
	}
}

func TestExpressPassSenderAsksAgainIfCreditsRanShort(t *testing.T) {
	p := xpassParams()
	s := NewCreditSender(&p)
	s.Start(0)
	s.Credit(10_000, 50)
	s.credits = 60
	if _, ask := s.Credit(20_000, 49); ask != AskCreditStop {
		t.Fatal("no stop with enough in flight")
	}
	if ask := s.Expire(s.Timer(), 7); ask != AskCredits {
		t.Fatal("seven packets left and no new request")
	}
}

// Two flows' credits share a queue of eight that passes one per microsecond. The
// second joins late; both end up with half, and the link is full.
func TestExpressPassTwoFlowsShare(t *testing.T) {
	p := xpassParams()
	p.Jitter = 0.1
	flows := []*CreditReceiver{NewCreditReceiver(&p, 20_000), NewCreditReceiver(&p, 20_000)}
	next := []int64{0, math.MaxInt64}
	random := rand.New(rand.NewPCG(1, 2))
	type data struct {
		at  int64
		f   int
		seq uint32
	}
	var under []data
	var passed [2]int
	free := int64(0) // when the queue is empty again
	flows[0].Request(0, 1000)
	for now := int64(0); now < 20_000_000; now += 10 {
		if now == 1_000_000 {
			flows[1].Request(now, 1000)
			next[1] = now
		}
		for len(under) > 0 && under[0].at <= now {
			flows[under[0].f].Data(now, under[0].seq)
			under = under[1:]
		}
		for i, f := range flows {
			if next[i] > now {
				continue
			}
			var seq uint32
			seq, next[i] = f.Credit(now, 2*random.Float64()-1)
			if free-now > 8*1000 {
				continue
			}
			free = max(free, now) + 1000
			under = append(under, data{free + 20_000, i, seq})
			if now > 5_000_000 {
				passed[i]++
			}
		}
	}
	sum, ratio := passed[0]+passed[1], float64(passed[0])/float64(passed[1])
	if sum < 14_250 || ratio < 0.9 || ratio > 1.1 {
		t.Errorf("passed %v of 15000", passed)
	}
}

func TestExpressPassRateStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := xpassParams()
		c := NewCreditReceiver(&p, 10_000)
		c.Request(0, rapid.IntRange(0, 100).Draw(t, "packets"))
		now := int64(0)
		for range rapid.IntRange(0, 200).Draw(t, "events") {
			seq, next := c.Credit(now, rapid.Float64Range(-1, 1).Draw(t, "jitter"))
			if next <= now {
				t.Fatalf("next credit at %d, now %d", next, now)
			}
			if rapid.Bool().Draw(t, "through") {
				c.Data(now, seq)
			}
			now = next + rapid.Int64Range(0, 20_000).Draw(t, "late")
			if !(c.Rate() > 0 && c.Rate() <= p.MaxPerSec) {
				t.Fatalf("rate %g", c.Rate())
			}
		}
	})
}
