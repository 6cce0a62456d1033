// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// model is what a process has, one entry for each object that was acquired.
type model struct {
	p       *Process
	uid     uint32
	objects [][]Use
	closed  bool
}

func (m *model) sum(k Kind) (n uint64) {
	for _, uses := range m.objects {
		for _, u := range uses {
			if u.Kind == k {
				n += u.N
			}
		}
	}
	return n
}

// roots is what root may have of the limit of all processes besides.
func roots(e *Error) uint64 {
	if e.Scope == Together && e.UID != 0 {
		return (e.Limit + 5) / 6
	}
	return 0
}

// What is granted, refused and counted is what a sum over all objects says.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{}
		for k := range kinds {
			l.Process[k] = rapid.Uint64Range(0, 12).Draw(t, "process")
			l.User[k] = rapid.Uint64Range(0, 20).Draw(t, "user")
			l.All[k].Max = rapid.Uint64Range(0, 40).Draw(t, "all") // 0: no limit
		}
		a := New(l)
		var all []*model
		sumOf := func(uid uint32, k Kind) (n uint64) {
			for _, m := range all {
				if m.uid == uid && !m.closed {
					if n += m.sum(k); k == Processes {
						n++
					}
				}
			}
			return n
		}
		// room reports whether all processes together may have n more of a kind.
		room := func(uid uint32, k Kind, n uint64) bool {
			most := l.All[k].Max
			if most == 0 {
				return true
			}
			if uid == 0 {
				most += (most + 5) / 6
			}
			return sumOf(0, k)+sumOf(1, k)+sumOf(2, k)+n <= most
		}
		pick := func() *model {
			if len(all) == 0 {
				t.Skip("no process")
			}
			return all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				uid := rapid.Uint32Range(0, 2).Draw(t, "uid")
				p, err := a.Open(0, uid)
				if fits := sumOf(uid, Processes) < l.User[Processes] && room(uid, Processes, 1); fits != (err == nil) {
					t.Fatalf("fits %v: %v", fits, err)
				}
				if err == nil {
					all = append(all, &model{p: p, uid: uid})
				}
			},
			"acquire": func(t *rapid.T) {
				m := pick()
				uses := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Use {
					n := rapid.OneOf(rapid.Uint64Range(0, 6), rapid.Just(uint64(math.MaxUint64))).Draw(t, "n")
					return Use{Kind(rapid.Uint8Range(uint8(QPs), uint8(kinds)-1).Draw(t, "kind")), n}
				}), 0, 4).Draw(t, "uses")
				err := m.p.Acquire(uses...)
				var want [kinds]uint64
				fits := true
				for _, u := range uses {
					if u.N > 100 {
						fits = false
						break
					}
					want[u.Kind] += u.N
					fits = fits && (u.N == 0 || m.sum(u.Kind)+want[u.Kind] <= l.Process[u.Kind] &&
						sumOf(m.uid, u.Kind)+want[u.Kind] <= l.User[u.Kind] && room(m.uid, u.Kind, want[u.Kind]))
				}
				if m.closed {
					if !errors.Is(err, ErrClosed) {
						t.Fatalf("after Close: %v", err)
					}
					return
				}
				if fits != (err == nil) {
					t.Fatalf("%v: fits %v: %v", uses, fits, err)
				}
				if err == nil {
					m.objects = append(m.objects, uses)
				} else if e := (*Error)(nil); !errors.As(err, &e) || e.InUse > e.Limit+roots(e) || e.InUse+e.Use.N <= e.Limit && e.Use.N < 100 {
					t.Fatalf("%#v", err)
				}
			},
			"release": func(t *rapid.T) {
				m := pick()
				if len(m.objects) == 0 {
					t.Skip("no object")
				}
				i := rapid.IntRange(0, len(m.objects)-1).Draw(t, "object")
				m.p.Release(m.objects[i]...)
				m.objects = slices.Delete(m.objects, i, i+1)
			},
			"close": func(t *rapid.T) {
				m := pick()
				m.p.Close()
				m.closed = true // and its objects are released in any order later
			},
			"": func(t *rapid.T) {
				for _, m := range all {
					compare(t, m.p.InUse(), func(k Kind) uint64 {
						if m.closed {
							return 0
						}
						return m.sum(k)
					})
				}
				for uid := range uint32(3) {
					compare(t, a.User(uid), func(k Kind) uint64 { return sumOf(uid, k) })
					if slices.Contains(a.Users(), uid) != (sumOf(uid, Processes) > 0) {
						t.Fatalf("users %v", a.Users())
					}
				}
			},
		})
	})
}

func compare(t *rapid.T, got []Use, want func(Kind) uint64) {
	for _, k := range Kinds() {
		n := uint64(0)
		if i := slices.IndexFunc(got, func(u Use) bool { return u.Kind == k }); i >= 0 {
			n = got[i].N
		}
		if n != want(k) {
			t.Fatalf("%d %s, want %d", n, k, want(k))
		}
	}
}

// The error has all that is needed to act on it. Nothing is to be freed for a request that exceeds the limit alone.
func TestErrorText(t *testing.T) {
	l := Defaults()
	l.Process[QPs], l.Process[Descriptors], l.User[MRs] = 3, 19, 2
	l.All[Mappings] = Share{Max: 6, Remedy: "vm.max_map_count"}
	a := New(l)
	p, err := a.Open(0, 1000, Use{QPs, 2}, Use{MRs, 1}, Use{Mappings, 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		use  Use
		text string
	}{
		{Use{QPs, 2}, "2 more queue pairs: this process (user ID 1000) has 2 of at most 3; free some, or have the administrator raise --nic-max-qps"},
		{Use{MRs, 2}, "2 more memory regions: this user (user ID 1000) has 1 of at most 2; free some, or have the administrator raise --nic-max-user-mrs"},
		{Use{Mappings, 6}, "6 more memory mappings in the server: all processes of the device together have 1 of at most 6; " +
			"end some that use the device, or have the administrator raise vm.max_map_count"},
		{Use{Descriptors, 20}, "20 file descriptors in the server at once, and the limit of a process is 19: " +
			"have the administrator raise --nic-max-descriptors"},
		{Use{MRs, 3}, "3 memory regions at once, and the limit of a user is 2: have the administrator raise --nic-max-user-mrs"},
		{Use{Mappings, 7}, "7 memory mappings in the server at once, and the limit of a device is 6: " +
			"have the administrator raise vm.max_map_count"},
	} {
		if err := p.Acquire(Use{WRs, 100}, x.use); err == nil || err.Error() != "limits: "+x.text {
			t.Errorf("%v\nwant limits: %s", err, x.text)
		}
	}
	if got := fmt.Sprint(p.InUse()); got != "[{queue pairs 2} {memory regions 1} {memory mappings in the server 1}]" {
		t.Error(got)
	}
}

// No number of objects overflows the sum of all processes, however high the limits of a process are.
func TestTogetherExtremes(t *testing.T) {
	l := Defaults()
	l.Process[Mappings], l.User[Mappings], l.All[Mappings].Max = math.MaxUint64, math.MaxUint64, 6
	a := New(l)
	if _, err := a.Open(0, 1, Use{Mappings, 2}); err != nil {
		t.Fatal(err)
	}
	p, err := a.Open(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{5, math.MaxUint64 - 1} {
		if p.Acquire(Use{Mappings, n}) == nil {
			t.Errorf("%d more than 2 of at most 6", n)
		}
	}
	if err := p.Acquire(Use{Mappings, 4}); err != nil {
		t.Error(err)
	}
}

// What every process uses is charged when it connects, as a whole or not at all.
func TestOpenCharges(t *testing.T) {
	l := Defaults()
	l.All[Descriptors].Max = 25
	a := New(l)
	p, err := a.Open(0, 1, Use{Mappings, 1}, Use{Descriptors, 20})
	if err != nil {
		t.Fatal(err)
	}
	var refused *Error
	if _, err := a.Open(0, 2, Use{Mappings, 1}, Use{Descriptors, 20}); !errors.As(err, &refused) || refused.Scope != Together {
		t.Errorf("40 descriptors of 25: %v", err)
	}
	if len(a.Users()) != 1 || a.all[Mappings] != 1 || a.all[Processes] != 1 {
		t.Errorf("a process that was refused counts: users %v, %d mappings, %d processes", a.Users(), a.all[Mappings], a.all[Processes])
	}
	p.Close()
	if _, err := a.Open(0, 2, Use{Mappings, 1}, Use{Descriptors, 20}); err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
}

// Every kind has a name, a flag of its own and a default.
func TestKinds(t *testing.T) {
	flags := map[string]bool{}
	d := Defaults()
	for _, k := range Kinds() {
		for _, s := range []Scope{PerProcess, PerUser} {
			flags[Flag(s, k)] = true
		}
		if k.String() == "" || d.User[k] == 0 || d.Process[k] == 0 && k != Processes {
			t.Errorf("kind %d: %q, %d, %d", k, k, d.Process[k], d.User[k])
		}
	}
	if len(flags) != 2*int(kinds) {
		t.Errorf("%d flags of %d kinds: %v", len(flags), kinds, flags)
	}
}

// A release of what is not there is a mistake of the caller.
func TestReleaseTooMuch(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	p, _ := New(Defaults()).Open(0, 1)
	p.Release(Use{AHs, 1})
}

// Many goroutines never exceed the limit together, and leave nothing behind.
func TestConcurrent(t *testing.T) {
	l := Defaults()
	l.User[QPs] = 5
	a := New(l)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			p, err := a.Open(0, 7)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			for range 500 {
				if p.Acquire(Use{QPs, 2}, Use{WRs, 1}) == nil {
					for _, u := range a.User(7) {
						if u.Kind == QPs && u.N > 5 {
							t.Errorf("%d queue pairs", u.N)
						}
					}
					p.Release(Use{WRs, 1}, Use{QPs, 2})
				}
			}
		})
	}
	all.Wait()
	if len(a.Users()) != 0 {
		t.Error(a.Users(), a.User(7))
	}
}
