// SPDX-License-Identifier: Apache-2.0

// Package clib has the C library of the device, libibverbs.so.1, in src, and its tests. Internal to this project.
package clib
