// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

// trace is the memory demand and the CPU utilisation of one machine, one value per 5 minutes.
type trace struct {
	name    string
	job     string // traces of one job are similar: they are in one part of a split
	day     int
	samples []predict.Sample
	need    []float64 // the demands, in pages
	targets []float64 // over-allocations to compare at, of a data centre
}

// add appends a period: memory in per cent, CPU from 0 to 1. The CPU stands for the utilisation of the
// lease, which these traces do not have.
func (t *trace) add(memory, cpu float64) {
	demand := math.Round(max(0, memory) * pagesPerPercent)
	const leased = 1 << 20
	t.samples = append(t.samples, predict.Sample{Demand: uint64(demand), Touched: uint64(max(0, min(cpu, 1)) * leased), Leased: leased})
	t.need = append(t.need, demand)
}

// pagesPerPercent makes pages of a per cent of memory: a machine of 4 GiB has 1 048 576 pages.
const pagesPerPercent = 10_486

// readGCD reads the folder of GCD_VMs.tar.gz: a file per machine and day, vm_JOB_DAY, with two columns.
func readGCD(dir string) ([]trace, error) {
	names, err := filepath.Glob(filepath.Join(dir, "vm_*"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no file vm_* in %s: unpack GCD_VMs.tar.gz of github.com/HiPro-IT/CPU-and-Memory-resource-usage-from-Google-Cluster-Data and name its folder", dir)
	}
	slices.Sort(names)
	all := make([]trace, 0, len(names))
	for _, name := range names {
		base := filepath.Base(name)
		parts := strings.Split(base, "_")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s: the name is not vm_JOB_DAY", name)
		}
		day, err := strconv.Atoi(parts[2])
		if err != nil {
			return nil, fmt.Errorf("%s: the name is not vm_JOB_DAY", name)
		}
		t := trace{name: base, job: parts[1], day: day}
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			var cpu, memory float64
			if _, err := fmt.Sscan(lines.Text(), &cpu, &memory); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", name, lines.Text(), err)
			}
			t.add(memory, cpu/100)
		}
		file.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// readColumns reads a table with a header: the columns of memory and CPU. The CPU is divided by its maximum.
func readColumns(path, memory, cpu string) (trace, error) {
	t := trace{name: filepath.Base(path)}
	file, err := os.Open(path)
	if err != nil {
		return t, err
	}
	defer file.Close()
	rows := csv.NewReader(file)
	header, err := rows.Read()
	if err != nil {
		return t, fmt.Errorf("%s: %w", path, err)
	}
	m, c := slices.Index(header, memory), slices.Index(header, cpu)
	if m < 0 || c < 0 {
		return t, fmt.Errorf("%s: columns %v, need %s and %s", path, header, memory, cpu)
	}
	var needs, uses []float64
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", path, err)
		}
		need, err1 := strconv.ParseFloat(row[m], 64)
		use, err2 := strconv.ParseFloat(row[c], 64)
		if err1 != nil || err2 != nil {
			continue // a gap of the trace
		}
		needs, uses = append(needs, need), append(uses, use)
	}
	if len(needs) == 0 {
		return t, fmt.Errorf("%s: no row with %s and %s", path, memory, cpu)
	}
	highNeed, highUse := slices.Max(needs), slices.Max(uses)
	for i := range needs {
		t.add(100*needs[i]/highNeed, uses[i]/highUse)
	}
	return t, nil
}

// use is the utilisation in a period, as predict.Node computes it.
func (t *trace) use(at int) float64 {
	return float64(t.samples[at].Touched) / float64(t.samples[at].Leased)
}

// slice is a part of a trace, from and to as parts of its length.
func (t *trace) slice(from, to float64) trace {
	a, b := int(from*float64(len(t.need))), int(to*float64(len(t.need)))
	return trace{name: t.name, job: t.job, day: t.day, samples: t.samples[a:b], need: t.need[a:b]}
}

// readDatacenters reads the traces of whole data centres.
func readDatacenters(dir string) ([]trace, error) {
	var all []trace
	for _, c := range []struct {
		name, file, memory, cpu string
		targets                 []float64
	}{
		{"Google 2019", "instance_usage_grouped_300_seconds_month.csv", "avg_mem", "avg_cpu", []float64{0.01, 0.02, 0.04}},
		{"Azure v2", "vm_cpu_readings_month_aggregated_cpu_mem_no_timestamp.csv", "assigned_mem", "cpu_usage", []float64{0.0025, 0.005, 0.01}},
		{"Alibaba 2018", "machine_usage_days_1_to_8_grouped_300_seconds.csv", "mem_util_percent", "cpu_util_percent", []float64{0.01, 0.02, 0.04}},
	} {
		t, err := readColumns(filepath.Join(dir, c.file), c.memory, c.cpu)
		if err != nil {
			return nil, err
		}
		t.name, t.job, t.targets = c.name, c.name, c.targets
		all = append(all, t)
	}
	return all, nil
}
