// SPDX-License-Identifier: Apache-2.0

// Package confine runs a test program as systemd would run it from a unit file: with the unit's bounding set of
// capabilities, its system call filter and its view of the file system. systemd itself is not needed as process 1.
//
// A test reads the unit with Read, and writes what it means for this machine with Prepare. A program whose TestMain
// begins with Main and that has the variable of Prepare in its environment executes itself again under these
// restrictions. They hold for all that it starts.
//
// Of the unit these settings are applied: CapabilityBoundingSet, NoNewPrivileges, SystemCallFilter,
// SystemCallErrorNumber, RestrictNamespaces, RestrictAddressFamilies, MemoryDenyWriteExecute, LimitMEMLOCK,
// ProtectSystem=strict, ProtectControlGroups, PrivateDevices, ReadOnlyPaths and ReadWritePaths. Others have no effect
// here.
package confine
