// SPDX-License-Identifier: Apache-2.0

package limits

import "fmt"

// Kind is what is counted.
type Kind uint8

// The kinds.
const (
	Processes   Kind = iota // connections of processes; only users have a limit
	QPs                     // queue pairs
	CQs                     // completion queues
	CQEntries               // entries of all completion queues
	SRQs                    // shared receive queues
	WRs                     // work requests for which queues have room: send, receive and SRQ
	MRs                     // memory regions
	MWs                     // memory windows
	AHs                     // address handles
	Bytes                   // bytes of registered memory; memory in two regions counts twice
	Arenas                  // bytes of mapped arenas
	Connections             // connections and resolutions of the communication manager, until they are gone
	Listeners               // services at which the communication manager listens
	Calls                   // control messages in a second: a rate, see Process.Spend
	Mappings                // memory mappings in the server: one for each arena and each file of rings
	Descriptors             // file descriptors in the server
	kinds
)

var names = [kinds]struct{ flag, text string }{
	Processes: {"processes", "processes"},
	QPs:       {"qps", "queue pairs"},
	CQs:       {"cqs", "completion queues"},
	CQEntries: {"cq-entries", "entries of completion queues"},
	SRQs:      {"srqs", "shared receive queues"},
	WRs:       {"wrs", "work requests in queues"},
	MRs:       {"mrs", "memory regions"},
	MWs:       {"mws", "memory windows"},
	AHs:       {"ahs", "address handles"},
	Bytes:     {"registered-bytes", "bytes of registered memory"},
	Arenas:    {"arena-bytes", "bytes of arenas"},

	Connections: {"connections", "connections"},
	Listeners:   {"listeners", "listeners"},
	Calls:       {"calls", "control messages in a second"},
	Mappings:    {"mappings", "memory mappings in the server"},
	Descriptors: {"descriptors", "file descriptors in the server"},
}

func (k Kind) String() string {
	if k < kinds {
		return names[k].text
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Scope is whose objects a limit counts.
type Scope uint8

// The scopes.
const (
	PerProcess Scope = iota
	PerUser
	Together // all processes of all users
)

func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return fmt.Sprintf("scope %d", uint8(s))
}

var scopeNames = [...]string{"process", "user", "device"}

// Flag is the name of the flag that sets a limit, without dashes, such as nic-max-user-qps.
func Flag(s Scope, k Kind) string {
	if s == PerUser {
		return "nic-max-user-" + names[k].flag
	}
	return "nic-max-" + names[k].flag
}

// Limits are the most that a process and a user may have of each kind. 0 allows none, but for Calls,
// where it counts as 1. Process[Processes] is not used.
//
// All is what all processes together may have of what the kernel limits for the server itself. It keeps a
// reserve for the server, which ends when the kernel refuses it memory mappings or threads.
type Limits struct {
	Process, User [kinds]uint64
	All           [kinds]Share
}

// Share is what all processes together may have of a kind.
type Share struct {
	Max    uint64 // 0: no limit
	Remedy string // limit that an administrator raises, as the error names it
}

// Defaults are limits for machines where many processes share a device. A user has four times
// as much as a process, and twice as many calls: 1000 of them take about 2 percent of a core.
func Defaults() Limits {
	l := Limits{Process: [kinds]uint64{
		QPs: 2048, CQs: 4096, CQEntries: 1 << 20, SRQs: 256, WRs: 1 << 20, MRs: 4096, MWs: 4096, AHs: 4096,
		Bytes: 16 << 30, Arenas: 4 << 30, Connections: 4096, Listeners: 256, Calls: 1000,
		Mappings: 1024, Descriptors: 1024,
	}}
	for k, n := range l.Process {
		l.User[k] = 4 * n
	}
	l.User[Processes] = 64
	l.User[Calls] = 2 * l.Process[Calls]
	return l
}

// Use is a number of one kind.
type Use struct {
	Kind Kind
	N    uint64
}

// Error is a refusal.
type Error struct {
	Scope Scope
	UID   uint32
	Use   Use    // amount that was asked for
	InUse uint64 // amount in use
	Limit uint64

	Remedy string // remedy of a Share
}

func (e *Error) Error() string {
	owner, ease, remedy := fmt.Sprintf("this %s (user ID %d) has", e.Scope, e.UID), "free some", "--"+Flag(e.Scope, e.Use.Kind)
	if e.Scope == Together {
		owner, ease, remedy = "all processes of the device together have", "end some that use the device", e.Remedy
	}
	if e.Use.N > e.Limit {
		return fmt.Sprintf("limits: %d %s at once, and the limit of a %s is %d: have the administrator raise %s",
			e.Use.N, e.Use.Kind, e.Scope, e.Limit, remedy)
	}
	return fmt.Sprintf("limits: %d more %s: %s %d of at most %d; %s, or have the administrator raise %s",
		e.Use.N, e.Use.Kind, owner, e.InUse, e.Limit, ease, remedy)
}
