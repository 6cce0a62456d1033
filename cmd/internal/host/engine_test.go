// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit/devices"
	"github.com/softroce/softroce-xdp/rocev2/verbs"
)

type without struct{ verbs.Device }

func TestCheckDevice(t *testing.T) {
	dev := devices.Loopback(t)
	if err := checkDevice(dev, "eth0"); err != nil {
		t.Error(err)
	}
	if err := checkDevice(without{dev}, "eth0"); err == nil || !strings.Contains(err.Error(), "no communication manager") {
		t.Error(err)
	}
}
