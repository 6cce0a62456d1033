// SPDX-License-Identifier: Apache-2.0

package predict_test

import (
	"fmt"
	"log"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// Two nodes report their periods, and share a pool by what they will need.
func Example() {
	const pagesPerSlab, pool = 256, 100 // 1 MiB slabs
	var claims []predict.Claim
	for i, demand := range []uint64{10_000, 2_500} {
		node, err := predict.NewNode(predict.DefaultConfig(), nil)
		if err != nil {
			log.Fatal(err)
		}
		for range 100 {
			if err := node.Observe(predict.Sample{Demand: demand, Touched: demand / 2, Leased: demand}); err != nil {
				log.Fatal(err)
			}
		}
		slabs := (node.Need() + pagesPerSlab - 1) / pagesPerSlab
		claims = append(claims, predict.Claim{Level: i + 1, Need: slabs, Max: pool})
	}
	grants := make([]uint64, len(claims))
	predict.Allocate(pool, claims, grants)
	fmt.Println("needs met:", grants[0] >= 40 && grants[1] >= 10, "slabs used:", grants[0]+grants[1])
	// Output: needs met: true slabs used: 100
}

// The minimum comes first, then the needs, then the rest by level.
func ExampleAllocate() {
	claims := []predict.Claim{
		{Level: 1, Need: 20, Max: 50},
		{Level: 2, Need: 30, Max: 60},
		{Level: 3, Need: 2, Min: 5, Max: 60},
	}
	grants := make([]uint64, len(claims))
	predict.Allocate(100, claims, grants)
	fmt.Println(grants)
	// Output: [50 45 5]
}
