// SPDX-License-Identifier: Apache-2.0

package limits

import "time"

const (
	// Call is the processor time that a control message counts for.
	Call = 20 * time.Microsecond

	// Saved is for how long calls that were not made are kept: a process that has made none for so long may
	// make them all at once.
	Saved = 30 * time.Second

	// A process may cost one part in engineShare of the engine's thread, and all processes of a user twice as much.
	engineShare, userEngineShare = 100, engineShare / 2

	// engineSaved is for how long unused time of the engine's thread is kept. It is short, since all packets wait for that
	// thread. The user's is longer: a process costs up to 3.3 ms in an iteration of the engine, which take 166 ms to refill.
	// So ring checks of other processes of the user do not wait for one process, but they do wait for several.
	engineSaved, userEngineSaved = 10 * time.Millisecond, 200 * time.Millisecond

	// engineBacklog is the longest wait for the engine's thread. In less time, the budget of a user is filled with what 64
	// processes cost in an iteration of the engine. So the wait ends soon after the processes that have caused it.
	engineBacklog = 11 * time.Second

	// Long signals to all processes of a user may take one part in longSignalShare of the engine's thread, as those to one
	// process do. Unused time is kept for longSignalSaved.
	longSignalShare, longSignalSaved = 4, engineSaved
)

// budget is the processor time of the server that a user or a process may cost. Its zero value is full.
type budget struct {
	whole  Bucket // processor time of all that was done
	engine Bucket // processor time of the engine's thread
	long   Bucket // processor time of long signals to all processes of a user
}

// spend takes the processor time of calls, of which there are perSecond.
func (b *budget) spend(now, cost time.Duration, perSecond uint64) (wait time.Duration) {
	const most = 1 << 40 // no product exceeds 64 bits
	return b.whole.Spend(now, uint64(cost), min(max(perSecond, 1), most)*uint64(Call), Saved)
}

// spendEngine takes time of the engine's thread, of which there is one part in share, but no more than leads to the wait
// backlog. At its limit it takes half of the whole, so that calls are never shut out.
func (b *budget) spendEngine(now, cost, share, saved, backlog time.Duration) (wait time.Duration) {
	taken, missing := b.engine.take(now, cost*share, saved+backlog)
	b.whole.take(now, taken/2, longest)
	return max(0, missing-saved)
}

// isFull reports whether nothing of it is missing.
func (b *budget) isFull(now time.Duration) bool {
	return b.whole.isFull(now) && b.engine.isFull(now) && b.long.isFull(now)
}

// forget removes users that have ended, when there are many. Those with a budget that is not full stay: another process of
// the user would begin with a full one.
func (a *Accounts) forget(now time.Duration) {
	if len(a.users) < a.sweep {
		return
	}
	for id, u := range a.users {
		if u.inUse[Processes] == 0 && u.budget.isFull(now) {
			delete(a.users, id)
		}
	}
	a.sweep = max(2*len(a.users), minSweep)
}

// minSweep is how many users there are before the first time that some are removed.
const minSweep = 64

// Spend counts processor time that the messages of the process have cost: Call for each message. It returns how long the
// process has to wait before the next, by its own limit and by that of its user. now is the time since any fixed point.
// Nothing is refused. Any goroutine may call it.
func (p *Process) Spend(now, cost time.Duration) (wait time.Duration) {
	l := &p.accounts.limits
	return max(p.budget.spend(now, cost, l.Process[Calls]), p.user.budget.spend(now, cost, l.User[Calls]))
}

// SpendEngine counts time of the engine's thread that the process has cost. It returns how long the thread is to do
// nothing of that kind for it.
func (p *Process) SpendEngine(now, cost time.Duration) (wait time.Duration) {
	return max(
		p.budget.spendEngine(now, cost, engineShare, engineSaved, engineBacklog),
		p.user.budget.spendEngine(now, cost, userEngineShare, userEngineSaved, engineBacklog),
	)
}

// SpendSignal is SpendEngine for a signal to the process. A signal belongs to a completion, so it never waits for what other
// processes of the user cost. It takes what the user has saved, and nothing beyond: no process of the user is suspended for
// signals to others.
func (p *Process) SpendSignal(now, cost time.Duration) (wait time.Duration) {
	p.user.budget.spendEngine(now, cost, userEngineShare, userEngineSaved, 0)
	return p.budget.spendEngine(now, cost, engineShare, engineSaved, engineBacklog)
}

// SpendLongSignal counts the processor time of a signal to the process that took long. It returns how long the next signal
// that may take long is to wait, to any process of the user: a process that makes its signals long could start others, and
// all of them together take the whole of the engine's thread.
func (p *Process) SpendLongSignal(now, cost time.Duration) (wait time.Duration) {
	_, missing := p.user.budget.long.take(now, cost*longSignalShare, longSignalSaved+engineBacklog)
	return max(0, missing-longSignalSaved)
}
