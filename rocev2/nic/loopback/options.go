// SPDX-License-Identifier: Apache-2.0

package loopback

import "github.com/softroce/softroce-xdp/rocev2/nic"

// Options is the configuration of the driver "loopback" (rdma.WithConfig).
type Options = nic.Options
