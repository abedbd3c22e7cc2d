package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/clusterctl"
)

// addProviderFlags adds the flags that name providers. It returns a function that parses their values.
func addProviderFlags(cmd *cobra.Command) func() (clusterctl.Request, error) {
	for _, kind := range clusterctl.Types {
		name, short := clusterctl.Flag(kind)
		cmd.Flags().StringSliceP(name, short, nil, string(kind)+"s, NAME or NAME:VERSION")
	}
	return func() (clusterctl.Request, error) {
		request := clusterctl.Request{}
		for _, kind := range clusterctl.Types {
			name, _ := clusterctl.Flag(kind)
			names, err := cmd.Flags().GetStringSlice(name)
			if err != nil {
				return nil, err
			}
			if len(names) > 0 {
				request[kind] = names
			}
		}
		return request, request.Check()
	}
}

// binaryFlag adds the flag for providers that run as processes of the plane.
func binaryFlag(cmd *cobra.Command, given *[]string, named func() (clusterctl.Request, error)) {
	const name = "provider-binary"
	cmd.Flags().StringArrayVar(given, name, nil, "NAME=PATH: run this program as a process of the plane instead of "+
		"the provider's Pods; it has your rights on this machine")
	complete := func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		request, err := named()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return completeBinary(request, begun)
	}
	if err := cmd.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag was added above
	}
}

// completeBinary completes the names of the providers in a request, then paths.
func completeBinary(request clusterctl.Request, begun string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	var all []string
	name, path, ok := strings.Cut(begun, "=")
	if !ok {
		for _, provider := range request.Names() {
			all = append(all, provider+"=")
		}
		return all, directive
	}
	found, err := filepath.Glob(path + "*")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, file := range found {
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			file += "/"
		}
		all = append(all, name+"="+file)
	}
	return all, directive
}

// useBinaries parses the programs that the user gave. It runs before any prompt.
func (t *target) useBinaries(given []string, request clusterctl.Request) (err error) {
	if len(given) > 0 && t.kubeconfig != "" {
		return hint("leave out --provider-binary", "with --kubeconfig the management cluster runs the provider's Pods, so "+
			"it can't use a program on this machine")
	}
	t.binaries, err = clusterctl.ParseBinaries(given, request)
	return err
}

// seconds is a time to wait, given as a number of seconds, as in clusterctl, or as a duration such as 5m.
type seconds time.Duration

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Type() string   { return "duration" }

func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		*s = seconds(time.Duration(n) * time.Second)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither a number of seconds nor a duration such as 5m", text)
	}
	*s = seconds(d)
	return nil
}

// waitFlags adds clusterctl's flags for waiting for providers.
func waitFlags(cmd *cobra.Command, wait *bool, timeout *time.Duration) {
	*timeout = 5 * time.Minute
	cmd.Flags().BoolVar(wait, "wait-providers", false, "wait until the providers are ready")
	cmd.Flags().Var((*seconds)(timeout), "wait-provider-timeout",
		"how long to wait for each provider, in seconds or as a duration")
}
