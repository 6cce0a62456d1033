// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/rdma/driver"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func Example() {
	driver.Register("none", driver.Func(func(context.Context, string, any) (verbs.Device, error) {
		return nil, errors.New("this driver has no devices")
	}))
	_, err := driver.Find("none").Open(context.Background(), "eth0", nil)
	fmt.Println(driver.Names(), err)
	// Output: [none] this driver has no devices
}
