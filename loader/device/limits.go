// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"sync"

	"github.com/softroce/softroce-xdp/rocev2/rdma/proto"
)

// resource is what is counted for a process and for a user.
type resource int

// The resources.
const (
	resProcesses resource = iota
	resQPs
	resMRs
	resCQEntries
	resBytes
	resObjects
	resources
)

var resourceNames = [resources]string{
	"processes", "queue pairs and shared receive queues", "memory regions and windows", "entries of completion queues",
	"bytes of arenas and queues", "objects",
}

// Limits are the most that a process, or all processes of a user, may use. 0: the default.
type Limits struct {
	Processes int   // of a user; of a process it is not used
	QPs       int   // queue pairs and shared receive queues
	MRs       int   // memory regions and windows
	CQEntries int   // of all completion queues
	Bytes     int64 // of arenas, queues and completion queues
	Objects   int   // of all kinds
}

// DefaultProcess are the default limits of a process.
var DefaultProcess = Limits{Processes: 1, QPs: 1024, MRs: 4096, CQEntries: 1 << 20, Bytes: 4 << 30, Objects: 16384}

// DefaultUser are the default limits of a user.
var DefaultUser = Limits{Processes: 64, QPs: 4096, MRs: 16384, CQEntries: 1 << 22, Bytes: 16 << 30, Objects: 65536}

// amounts has a number for each resource.
type amounts [resources]int64

func (l Limits) amounts(def Limits) (a amounts) {
	pick := func(r resource, v, d int64) {
		if a[r] = v; v == 0 {
			a[r] = d
		}
	}
	pick(resProcesses, int64(l.Processes), int64(def.Processes))
	pick(resQPs, int64(l.QPs), int64(def.QPs))
	pick(resMRs, int64(l.MRs), int64(def.MRs))
	pick(resCQEntries, int64(l.CQEntries), int64(def.CQEntries))
	pick(resBytes, l.Bytes, def.Bytes)
	pick(resObjects, int64(l.Objects), int64(def.Objects))
	return a
}

// accounts has what processes and users use.
type accounts struct {
	mu            sync.Mutex
	process, user amounts // limits
	users         map[uint32]*amounts
}

// account is what one process uses.
type account struct {
	all  *accounts
	uid  uint32
	used amounts // under all.mu
}

// open begins the account of a process of a user.
func (a *accounts) open(uid uint32) (*account, error) {
	c := &account{all: a, uid: uid}
	return c, c.take(resProcesses, 1)
}

// take adds n to what the process uses, or returns which limit it would exceed.
func (c *account) take(r resource, n int64) error {
	a := c.all
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[c.uid]
	if u == nil {
		u = new(amounts)
		a.users[c.uid] = u
	}
	for _, l := range []struct {
		who         string
		used, limit int64
	}{{"this process", c.used[r], a.process[r]}, {fmt.Sprintf("user %d", c.uid), u[r], a.user[r]}} {
		if n > l.limit-l.used {
			a.forget(c.uid, u)
			return fmt.Errorf("%s of %s: %d more than the %d in use: %w, %d", resourceNames[r], l.who, n, l.used, proto.ErrLimit, l.limit)
		}
	}
	c.used[r] += n
	u[r] += n
	return nil
}

// give is the inverse of take.
func (c *account) give(r resource, n int64) {
	a := c.all
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[c.uid]
	c.used[r] -= n
	u[r] -= n
	a.forget(c.uid, u)
}

// forget removes a user that uses nothing.
func (a *accounts) forget(uid uint32, u *amounts) {
	if *u == (amounts{}) {
		delete(a.users, uid)
	}
}

// usage returns what the process uses.
func (c *account) usage() amounts {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	return c.used
}
