// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/softroce/softroce-xdp/rocev2/qp"
)

// A question asks a peer whether it stamps now, and up to which length. The report to the destination
// table carries it (DestSync.Ask), the agent sends it as a HELLO with a nonce, and the table has the
// answer. So only the peer can answer, but anybody can cause a question: by a packet without the token.

const (
	// questionPeriod is the time between questions to a peer that does not answer.
	questionPeriod = qp.Time(75 * time.Millisecond)
	// questionLimit is how many questions a peer leaves without an answer until it counts as silent.
	questionLimit = 4
	// answerHolds is the time after an answer without a question because of dropped packets.
	answerHolds = qp.Time(200 * time.Millisecond)
	// stampsAgain is the same for packets with the token of a peer that does not stamp.
	stampsAgain = qp.Time(time.Second)
)

// question is the question to a peer that is open, or what was before.
type question struct {
	open    bool
	asked   uint8   // number of repetitions
	firstAt qp.Time // time of the first question
	lastAt  qp.Time
	endAt   qp.Time // end of the last question, by an answer or without
	counted bool    // answers is what the table had
	answers uint8   // DestSync.Answers of the latest reply
}

// ask opens a question to a peer, unless the last one ended less than rest ago.
func (s *destinations) ask(d *dest, rest qp.Time) {
	q := &d.guard.question
	if q.open || q.endAt != 0 && s.e.now-q.endAt < rest {
		return
	}
	q.open, q.asked, q.firstAt = true, 0, s.e.now
	s.askAgain(d)
}

func (s *destinations) askAgain(d *dest) {
	q := &d.guard.question
	q.asked++
	q.lastAt = s.e.now
	d.report.Ask = true
	s.e.count.questions++
	s.queueForSync(d)
}

// applyAnswer takes the count of answers in the table. It is called with each reply of the table, which come
// every syncPeriod while a question is open.
func (s *destinations) applyAnswer(d *dest, answers uint8) {
	g := &d.guard
	q := &g.question
	answered := q.counted && q.answers != answers
	q.counted, q.answers = true, answers
	switch {
	case answered:
		g.silent, q.open, q.endAt = false, false, s.e.now
	case !q.open:
		if g.exactOnly() && g.provenAt > q.endAt { // it stamps again
			s.ask(d, stampsAgain)
		}
	case s.e.now-q.lastAt < questionPeriod:
	case q.asked < questionLimit:
		s.askAgain(d)
	default:
		q.open, q.endAt = false, s.e.now
		if g.provenAt < q.firstAt && !g.silent {
			g.silent = true
			s.e.count.silent++
		}
	}
}
