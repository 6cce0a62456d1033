// SPDX-License-Identifier: Apache-2.0

package pacer

// missing has the errors of qdiscs that tests make missing.
var missing = map[string]error{}

// Miss makes a qdisc, "fq" or "htb", missing in this process, for tests: err is the error of the kernel. nil ends it.
func Miss(qdisc string, err error) { missing[qdisc] = err }
