// SPDX-License-Identifier: Apache-2.0

// Command predict compares mempool/predict with simple predictors on real traces of memory demand.
// It prints the tables of docs/study/memory-prediction.md, which says where the traces come from.
//
//	go run ./testenv/experiments/predict -gcd FOLDER -datacenters FOLDER
//
// With -start it writes the weights with which the networks of the package begin. `go generate ./mempool/predict`
// does that.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/softroce/softroce-xdp/mempool/predict"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "predict:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	gcd, datacenters string
	start            string
	horizons         []int
	seeds            int
	epochs           int
	mixtures         int
	networks         int
	byDay            bool
	starts           bool
	develop          bool
}

// rate is the learning rate of the nodes: that of the pool server.
var rate = predict.DefaultConfig().Rate

func run(args []string, out, progress io.Writer) error {
	o := options{horizons: []int{3, 12}}
	f := flag.NewFlagSet("predict", flag.ContinueOnError)
	f.StringVar(&o.gcd, "gcd", "", "`folder` of the unpacked GCD_VMs.tar.gz")
	f.StringVar(&o.datacenters, "datacenters", "", "`folder` with the monthly tables of DataCenter-Traces-Datasets")
	f.StringVar(&o.start, "start", "", "train the start network of the package with synthetic demands, and write it to this `file`")
	f.IntVar(&o.seeds, "seeds", 3, "`number` of splits and networks; seeds 1 to number")
	f.IntVar(&o.epochs, "epochs", 5, "`times` that each decision is used in training")
	f.IntVar(&o.mixtures, "mixtures", 1500, "`number` of sums of two training traces to train with")
	f.IntVar(&o.networks, "networks", 1, "`number` of networks whose mean output is one more method")
	f.BoolVar(&o.byDay, "by-day", false, "train with days 1 to 6 of all jobs, not with all days of 60 % of the jobs")
	f.BoolVar(&o.starts, "starts", false, "nodes that begin with the start network of the package, and with random weights, as well")
	f.BoolVar(&o.develop, "develop", false, "compare on the validation part, and fit margins on a quarter of the training part: the test part stays unseen")
	horizon := f.Int("horizon", 0, "only this `number` of periods (default 3 and 12)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *horizon != 0 {
		o.horizons = []int{*horizon}
	}
	if o.start != "" {
		return writeStart(o.start)
	}
	if o.gcd == "" && o.datacenters == "" {
		return errors.New("no traces: use -gcd or -datacenters, see docs/study/memory-prediction.md")
	}
	if o.gcd != "" {
		if err := o.compareGCD(out, progress); err != nil {
			return err
		}
	}
	if o.datacenters != "" {
		return o.compareDatacenters(out, progress)
	}
	return nil
}

// compareGCD writes a table per horizon for the 1600 machines.
func (o *options) compareGCD(out, progress io.Writer) error {
	traces, err := readGCD(o.gcd)
	if err != nil {
		return err
	}
	for _, horizon := range o.horizons {
		t := table{targets: []float64{0.01, 0.02, 0.04}}
		for seed := range uint64(o.seeds) {
			seed++
			sets := splitByJob(traces, seed)
			if o.byDay {
				sets = splitByDay(traces)
			}
			if o.develop {
				sets = withoutTest(sets, seed)
			}
			if err := o.compare(&t, sets, horizon, seed, progress); err != nil {
				return err
			}
		}
		t.write(out, fmt.Sprintf("%d machines, %d periods ahead, %d seeds", len(traces), horizon, o.seeds))
	}
	return nil
}

// compareDatacenters writes a table per horizon for the means of whole data centres: the first 60 % of each
// trace is for training, the last 20 % for the test.
func (o *options) compareDatacenters(out, progress io.Writer) error {
	traces, err := readDatacenters(o.datacenters)
	if err != nil {
		return err
	}
	for _, horizon := range o.horizons {
		for _, one := range traces {
			t := table{targets: one.targets}
			for seed := range uint64(o.seeds) {
				var sets [parts][]trace
				for _, other := range traces {
					sets[training] = append(sets[training], other.slice(0, 0.6))
				}
				sets[validation] = []trace{one.slice(0.6, 0.8)}
				sets[test] = []trace{one.slice(0.8, 1)}
				if err := o.compare(&t, sets, horizon, seed+1, progress); err != nil {
					return err
				}
			}
			t.write(out, fmt.Sprintf("%s, %d periods ahead, %d seeds", one.name, horizon, o.seeds))
		}
	}
	return nil
}

// compare adds the scores of all methods for one split.
func (o *options) compare(t *table, sets [parts][]trace, horizon int, seed uint64, progress io.Writer) error {
	begin := time.Now()
	nets, err := o.train(sets[training], horizon, seed)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "horizon %d, seed %d: trained in %v\n", horizon, seed, time.Since(begin).Round(time.Second))
	methods := []method{nodes("node, trained start", nets[0], rate, sets, horizon)}
	fmt.Fprintf(progress, "horizon %d, seed %d: %s\n", horizon, seed, methods[0].detail)
	methods = append(methods, fixedNetwork("network alone, trained", nets[:1], sets, horizon))
	if len(nets) > 1 {
		methods = append(methods, fixedNetwork(fmt.Sprintf("mean of %d networks, trained", len(nets)), nets, sets, horizon))
	}
	if o.starts {
		methods = append(methods,
			nodes("node, start of the package", nil, rate, sets, horizon),
			nodes("node, random start", predict.NewNetwork(seed, predict.Inputs, 32, 16), rate, sets, horizon))
	}
	for i, target := range t.targets {
		t.add(i, baselines(sets, horizon, target), methods)
	}
	fmt.Fprintf(progress, "horizon %d, seed %d: done after %v\n", horizon, seed, time.Since(begin).Round(time.Second))
	return nil
}

func (o *options) train(traces []trace, horizon int, seed uint64) ([]*predict.Network, error) {
	var samples [][]predict.Sample
	for _, t := range traces {
		samples = append(samples, t.samples)
	}
	if len(traces) > 10 { // enough different jobs
		samples = append(samples, mixtures(traces, o.mixtures, seed)...)
	}
	var nets []*predict.Network
	for i := range uint64(o.networks) {
		cfg := predict.DefaultTrainConfig(horizon)
		cfg.Epochs, cfg.Seed = o.epochs, seed+1000*i
		n, err := predict.Train(cfg, samples)
		if err != nil {
			return nil, err
		}
		nets = append(nets, n)
	}
	return nets, nil
}
