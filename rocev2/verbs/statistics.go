// SPDX-License-Identifier: Apache-2.0

package verbs

// Statistics is an optional interface of a Device.
type Statistics interface {
	// Counters returns what the device has counted, always the same counters in the same
	// order.
	Counters() []Counter
}

// Counter is one counter of a device. Where rxe or mlx5 count the same, the name is theirs
// (hw_counters), rxe's first.
type Counter struct {
	Name  string
	Value uint64
	Text  string // description of the counter, for people
}
