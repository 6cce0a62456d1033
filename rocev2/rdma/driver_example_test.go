// SPDX-License-Identifier: Apache-2.0

package rdma_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/softroce/softroce-xdp/rocev2/rdma"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

func ExampleRegister() {
	rdma.Register("none", rdma.DriverFunc(func(context.Context, string, any) (verbs.Device, error) {
		return nil, errors.New("this driver has no devices")
	}))
	_, err := rdma.Open(context.Background(), "eth0", rdma.WithDriver("none"))
	fmt.Println(err)
	// Output: this driver has no devices
}
