// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sim

func hugeSlice[T any](n int) []T { return make([]T, n) }
