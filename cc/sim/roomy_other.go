// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sim

func roomy[T any](n int) []T { return make([]T, n) }
