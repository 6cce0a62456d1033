// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrClosed: the account of the process was closed.
var ErrClosed = errors.New("limits: the process has ended or disconnected")

// Accounts counts for all processes of one device. Its methods and those of its processes may
// be called by any goroutine.
type Accounts struct {
	mu     sync.Mutex
	limits Limits
	users  map[uint32]*user // users with processes, and users with a budget that is not full
	all    [kinds]uint64    // amounts of all processes
	sweep  int              // len(users) at which others are removed
}

type user struct {
	inUse  [kinds]uint64
	budget budget
}

// Process is the account of a process.
type Process struct {
	accounts *Accounts
	uid      uint32
	user     *user
	inUse    [kinds]uint64
	budget   budget
	closed   bool
}

// New returns accounts without processes.
func New(l Limits) *Accounts {
	return &Accounts{limits: l, users: map[uint32]*user{}, sweep: minSweep}
}

// Open counts a process of a user, and what every process uses. now is the time since any fixed point. The error is an
// *Error.
func (a *Accounts) Open(now time.Duration, uid uint32, uses ...Use) (*Process, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now)
	u := a.users[uid]
	if u == nil {
		u = &user{}
	}
	one := Use{Processes, 1}
	err := a.limits.check(PerUser, uid, &u.inUse, one)
	if err == nil {
		err = a.limits.checkAll(uid, &a.all, one)
	}
	if err != nil {
		return nil, err
	}
	p := &Process{accounts: a, uid: uid, user: u}
	if err := p.acquire(uses); err != nil {
		return nil, err
	}
	u.inUse[Processes]++
	a.all[Processes]++
	a.users[uid] = u
	return p, nil
}

// User returns what the processes of a user have.
func (a *Accounts) User(uid uint32) []Use {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u := a.users[uid]; u != nil {
		return list(&u.inUse)
	}
	return nil
}

// Users returns the users that have processes, by number.
func (a *Accounts) Users() []uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]uint32, 0, len(a.users))
	for id, u := range a.users {
		if u.inUse[Processes] > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// checkAll is check for all processes together. Root gets a sixth more, so that an administrator can read the
// status while users have all of a share.
func (l *Limits) checkAll(uid uint32, inUse *[kinds]uint64, u Use) error {
	share := &l.All[u.Kind]
	limit := share.Max
	if uid == 0 {
		limit += (limit + 5) / 6
	}
	if n := inUse[u.Kind]; share.Max > 0 && u.N > 0 && (n > limit || u.N > limit-n) {
		return &Error{Scope: Together, UID: uid, Use: u, InUse: n, Limit: limit, Remedy: share.Remedy}
	}
	return nil
}

// check returns an error if more of a kind would exceed the limit of a process or a user.
func (l *Limits) check(s Scope, uid uint32, inUse *[kinds]uint64, u Use) error {
	limit := &l.Process
	if s == PerUser {
		limit = &l.User
	}
	if n := inUse[u.Kind]; u.N > 0 && (n > limit[u.Kind] || u.N > limit[u.Kind]-n) {
		return &Error{Scope: s, UID: uid, Use: u, InUse: n, Limit: limit[u.Kind]}
	}
	return nil
}

// Acquire counts all of the uses, or none of them and returns an *Error or ErrClosed.
// A kind may occur more than once.
func (p *Process) Acquire(uses ...Use) error {
	a := p.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	return p.acquire(uses)
}

func (p *Process) acquire(uses []Use) error {
	a := p.accounts
	for i, u := range uses {
		err := a.limits.check(PerProcess, p.uid, &p.inUse, u)
		if err == nil {
			err = a.limits.check(PerUser, p.uid, &p.user.inUse, u)
		}
		if err == nil {
			err = a.limits.checkAll(p.uid, &a.all, u)
		}
		if err != nil {
			p.give(uses[:i])
			return err
		}
		p.inUse[u.Kind] += u.N
		p.user.inUse[u.Kind] += u.N
		a.all[u.Kind] += u.N
	}
	return nil
}

// Release undoes an Acquire, or a part of one. After Close it does nothing: objects of a
// process that has ended may be freed in any order. It panics if the process does not have
// so much.
func (p *Process) Release(uses ...Use) {
	p.accounts.mu.Lock()
	defer p.accounts.mu.Unlock()
	if !p.closed {
		p.give(uses)
	}
}

func (p *Process) give(uses []Use) {
	for _, u := range uses {
		if u.N > p.inUse[u.Kind] {
			panic(fmt.Sprintf("limits: %d %s released, and the process has %d", u.N, u.Kind, p.inUse[u.Kind]))
		}
		p.inUse[u.Kind] -= u.N
		p.user.inUse[u.Kind] -= u.N
		p.accounts.all[u.Kind] -= u.N
	}
}

// InUse returns what the process has; nothing after Close.
func (p *Process) InUse() []Use {
	p.accounts.mu.Lock()
	defer p.accounts.mu.Unlock()
	return list(&p.inUse)
}

// Most is what the process may have at most of a kind: its own limit or that of its user, whichever is lower.
func (p *Process) Most(k Kind) uint64 {
	l := &p.accounts.limits
	return min(l.Process[k], l.User[k])
}

// Close releases all that the process has, and the process. A second call does nothing.
func (p *Process) Close() {
	a := p.accounts
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.give(list(&p.inUse))
	a.all[Processes]--
	p.user.inUse[Processes]--
}

// list is what is not 0.
func list(inUse *[kinds]uint64) (uses []Use) {
	for k, n := range inUse {
		if n > 0 {
			uses = append(uses, Use{Kind(k), n})
		}
	}
	return uses
}
