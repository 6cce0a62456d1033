// SPDX-License-Identifier: Apache-2.0

package mutants

// endToEnd has one wrong version for each test of the whole product that must notice it: the policy decides, and
// never changes a rate. Some of these tests give a slow machine five minutes before they fail.
var endToEnd = area{name: "policy end to end", dir: "cc/loop", root: true, list: []mutant{
	neverChangesIn("TestPerDestination", "testenv/e2e"),
	neverChangesIn("TestCasesOnInterfaces", "testenv/e2e"),
	neverChangesIn("TestDataFirst", "testenv/e2e"),
	neverChangesIn("TestPriority", "testenv/e2e"),
	neverChangesIn("TestPriorityEstimatesTheSharedLink", "testenv/e2e"),
	neverChangesIn("TestReality", "testenv/experiments/rates"),
	neverChangesIn("TestShare", "testenv/experiments/rates"),
}}

// neverChangesIn returns the mutant for one test.
func neverChangesIn(test, pkg string) mutant {
	return mutant{
		name: "the policy never changes a rate: " + test, file: "evaluate.go", test: test, pkg: pkg,
		old: policySteps, new: neverChanges,
	}
}
