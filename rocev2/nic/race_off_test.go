// SPDX-License-Identifier: Apache-2.0

//go:build !race

package nic_test

const underRace = false
