// SPDX-License-Identifier: Apache-2.0

// Package mutants tests the tests: each mutant is a wrong version of one source file, and the test that
// it names must fail with it.
//
//	make mutants                                    # all of them, with a table of what found each (root)
//	go test ./testenv/mutants                       # those that are quick
//	go test ./testenv/mutants -args -mutants.area='qp requester' -mutants.whole
//
// A mutant is found only if its test reports a failure. A source that does not compile, a program that the
// kernel's verifier refuses, a missing or skipped test, a panic outside of a test, and a test that runs until
// the timeout of go test are errors of the table. So a mutant that makes a test hang counts only if the test
// has a deadline of its own.
//
// Files: mutant_test.go has the types and the areas; run_test.go builds and runs; bpf_test.go compiles the data
// plane; the others have the mutants of one or more areas each.
package mutants
