// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/softroce/softroce-xdp/internal/testkit"
)

// The package comment names each file, and no file that is not there.
func TestDocNamesFiles(t *testing.T) { testkit.DocNamesFiles(t) }
