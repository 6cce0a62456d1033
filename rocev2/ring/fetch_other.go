// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package ring

import "sync/atomic"

func prefetch(*atomic.Uint64) {}
