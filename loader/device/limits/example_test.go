// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"fmt"

	"github.com/softroce/softroce-xdp/loader/device/limits"
)

func Example() {
	l := limits.Defaults()
	l.User[limits.QPs] = 1
	accounts := limits.New(l)
	p, _ := accounts.Open(0, 1000)
	q, _ := accounts.Open(0, 1000)
	fmt.Println(p.Acquire(limits.Use{Kind: limits.QPs, N: 1}, limits.Use{Kind: limits.WRs, N: 256}))
	fmt.Println(q.Acquire(limits.Use{Kind: limits.QPs, N: 1}))
	p.Close() // the process has ended
	fmt.Println(q.Acquire(limits.Use{Kind: limits.QPs, N: 1}))
	// Output:
	// <nil>
	// limits: 1 more queue pairs: this user (user ID 1000) has 1 of at most 1; free some, or have the administrator raise --nic-max-user-qps
	// <nil>
}
