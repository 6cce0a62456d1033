// SPDX-License-Identifier: Apache-2.0

package mutants

var leases = area{name: "lease", dir: "mempool/lease", pure: true, list: []mutant{
	{
		name: "an earlier connection that ends takes the node away", file: "table.go",
		old: "if n == nil || n.session != session || n.away {", new: "if n == nil || n.away {", test: "TestLost",
	},
	{
		name: "a node returns the slabs of another one", file: "slabs.go",
		old: "t.slabs[s].owner == nil || t.slabs[s].owner.id != id {", new: "t.slabs[s].owner == nil {", test: "TestForeignReturn",
	},
	{
		name: "a slab whose key could not be ended is leased again", file: "slabs.go",
		old: "		t.slabs[s].state = broken\n		t.broken++\n",
		new: "		t.slabs[s].state = free\n		t.free = append(t.free, s)\n		t.broken++\n", test: "TestFailures",
	},
	{
		name: "a node must return more slabs than planned", file: "slabs.go",
		old: "		if held > slabs && t.slabs[s].state == leased {", new: "		if held >= slabs && t.slabs[s].state == leased {", test: "TestLeaseFollowsNeed",
	},
	{
		name: "a node that resumes gets no keys", file: "slabs.go",
		old: "			x.opened = true\n			t.do(", new: "			x.opened = false\n			continue\n			t.do(", test: "TestRestart",
	},
	{
		name: "a need falls at once", file: "planner.go",
		old: "return value + (old-value)/2", new: "return value", test: "TestLeaseFollowsNeed",
	},
	{
		name: "the odd slab goes to a node that has all it wants", file: "planner.go",
		old: "if capacity > 0 && w > level {", new: "if capacity > 0 && w >= level {", test: "TestShare",
	},
}}

var planners = area{name: "planner", dir: "mempool/planner", pure: true, list: []mutant{
	{
		name: "a part of a page is no page", file: "planner.go",
		old: "{ return (bytes + pageBytes - 1) / pageBytes }", new: "{ return bytes / pageBytes }", test: "TestSamplesAndClaims",
	},
	{
		name: "a prediction in pages counts as bytes", file: "planner.go",
		old: "return n.prediction.Need() * pageBytes", new: "return n.prediction.Need()", test: "TestPlanFollowsDemand",
	},
	{
		name: "the samples of a node that left are kept", file: "planner.go",
		old: "	delete(p.samples, id)\n", new: "", test: "TestSamplesAndClaims",
	},
	{
		name: "a node that resumes begins as a new one", file: "planner.go",
		old: "	n.periods = len(list)\n", new: "", test: "TestRestart",
	},
	{
		name: "what a node used does not count", file: "planner.go",
		old: "claims[i].Max = max(claims[i].Need, claims[i].Used)", new: "claims[i].Max = claims[i].Need", test: "TestSamplesAndClaims",
	},
	{
		name: "free slabs are given to nodes that have enough", file: "keep.go",
		old: "min(x.Leased, x.Demand)", new: "max(x.Leased, x.Demand)", test: "TestKeep",
	},
}}

var poolPages = area{name: "pages", dir: "mempool/pages", pure: true, list: []mutant{
	{
		name: "a slot of a page in use is given to another one", file: "store.go",
		old: "	if p.busy > 0 {\n		p.kept = ", new: "	if false {\n		p.kept = ", test: "TestForgottenWhileRead",
	},
	{
		name: "kept slots are not given back", file: "store.go",
		old: "			s.give(k.slab, k.slot)\n", new: "			_ = k\n", test: "TestForgottenWhileRead",
	},
	{
		name: "a move that fails keeps its new slot", file: "store.go",
		old: "	case current:\n		s.give(to, slot)\n", new: "", test: "TestMoveFails",
	},
	{
		name: "pages that are not next to each other are one operation", file: "combine.go",
		old: " || b.Key != a.Key || b.Offset != a.Offset+s.offset(n) {", new: " || b.Key != a.Key {", test: "TestCombine",
	},
	{
		name: "refused WRITEs are wanted for ever", file: "store.go",
		old: "	s.refused = 0\n", new: "", test: "TestRefusedUntilLease",
	},
	{
		name: "requests of a page that has moved are not started", file: "store.go",
		old: "	for _, begin := range waiting {\n		begin()\n	}\n", new: "	_ = waiting\n", test: "TestRequestDuringMove",
	},
}}

var spreading = area{name: "spread", dir: "mempool/spread", pure: true, list: []mutant{
	{
		name: "one copy is enough for a mirror", file: "write.go",
		old: "	case len(p.copies) >= t.needed():\n		err = nil", new: "	case len(p.copies) >= 1:\n		err = nil", test: "TestOtherPlace",
	},
	{
		name: "a late answer drops a copy that was written since", file: "read.go",
		old: "!errors.Is(err, ErrNoRoom) && x.version == p.version {", new: "!errors.Is(err, ErrNoRoom) {", test: "TestLateAnswer",
	},
	{
		name: "a server gets rid of the last copy but one", file: "repair.go",
		old: "if len(p.copies) > t.copies {", new: "if len(p.copies) >= t.copies {", test: "TestSqueezedByBoth",
	},
	{
		name: "repairs that ended still count", file: "repair.go",
		old: "	t.repairs--\n", new: "", test: "TestManyRepairs",
	},
	{
		name: "a READ that is late is not asked of the mirror", file: "read.go",
		old: "	t.reads = append(t.reads, o)\n", new: "", test: "TestLateRead",
	},
	{
		name: "an overwritten copy is not forgotten by its server", file: "write.go",
		old: "		if !slices.Contains(targets, s) {\n			t.do(", new: "		if false {\n			t.do(", test: "TestWriteInPlaceOfMove",
	},
	{
		name: "a repair does not use up room", file: "repair.go",
		old: "		to.room--\n", new: "", test: "TestManyRepairs",
	},
}}
