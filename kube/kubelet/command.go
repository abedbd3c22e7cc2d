// Package kubelet is Kubernetes' kubelet for local hosts: the real one, with its flags, configuration file, TLS
// bootstrap, API, pod lifecycle and probes, but without cgroups and cAdvisor. So it needs only a few namespaces and no
// root, and many such kubelets can run on one machine.
//
// The stock command has no place for other dependencies. So this package reads the flags and the configuration file as
// that command does (flags win), adapts the settings to such a host (settings.go), replaces some of the stock
// dependencies (dependencies.go), and calls the stock Run. The CRI endpoint determines whether containers are hollow
// (mode.go). If they are, the kubelet mounts nothing and changes pods as it receives them (pods.go).
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// NewCommand returns the kubelet's command. It accepts the flags of the stock kubelet, except --config-dir.
func NewCommand() *cobra.Command {
	var flagSet *pflag.FlagSet
	flags := options.NewKubeletFlags()
	config, configErr := options.NewKubeletConfiguration()
	cmd := &cobra.Command{
		Use:   "kubelet",
		Short: "The kubelet of a local host",
		// Flags are parsed before and after the configuration file, because they take precedence over it.
		DisableFlagParsing: true,
		SilenceUsage:       true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if configErr != nil {
				return fmt.Errorf("making the default configuration: %w", configErr)
			}
			if err := flagSet.Parse(args); err != nil {
				return fmt.Errorf("parsing flags: %w", err)
			}
			if rest := flagSet.Args(); len(rest) > 0 {
				return fmt.Errorf("unknown argument %q: the kubelet takes only flags", rest[0])
			}
			if help, _ := flagSet.GetBool("help"); help {
				return cmd.Help()
			}
			verflag.PrintAndExitIfRequested()
			return run(genericapiserver.SetupSignalContext(), flags, config, args)
		},
	}
	// Use a separate set: cobra would add global flags to the help of the command's set.
	flagSet = pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flagSet.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.AddFlags(flagSet)
	if configErr == nil {
		options.AddKubeletConfigFlags(flagSet, config)
	}
	options.AddGlobalFlags(flagSet)
	flagSet.BoolP("help", "h", false, "help for kubelet")
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nFlags:\n%s", cmd.Short, flagSet.FlagUsagesWrapped(2))
	})
	return cmd
}

// run runs the kubelet until ctx ends. config holds the values of the flags so far; run parses args again after the
// configuration file.
func run(ctx context.Context, flags *options.KubeletFlags, config *kubeletconfig.KubeletConfiguration,
	args []string) error {
	gates := utilfeature.DefaultMutableFeatureGate
	if err := gates.SetFromMap(config.FeatureGates); err != nil {
		return fmt.Errorf("setting feature gates from flags: %w", err)
	}
	if err := options.ValidateKubeletFlags(flags); err != nil {
		return fmt.Errorf("checking flags: %w", err)
	}
	if flags.KubeletDropinConfigDirectory != "" {
		return errors.New("--config-dir is not supported on local hosts: put the settings into the file that --config names")
	}
	if flags.KubeletConfigFile != "" {
		var err error
		if config, err = load(ctx, flags.KubeletConfigFile); err != nil {
			return err
		}
		if err := overlay(config, args); err != nil {
			return fmt.Errorf("parsing flags over the configuration file: %w", err)
		}
		if err := gates.SetFromMap(config.FeatureGates); err != nil {
			return fmt.Errorf("setting feature gates from %s: %w", flags.KubeletConfigFile, err)
		}
	}
	containers, err := askMode(ctx, config.ContainerRuntimeEndpoint)
	if err != nil {
		return err
	}
	fit(flags, config, containers)

	logs.InitLogs()
	if err := logsapi.ValidateAndApplyAsField(&config.Logging, utilfeature.DefaultFeatureGate,
		field.NewPath("logging")); err != nil {
		return fmt.Errorf("starting logging: %w", err)
	}
	if err := validation.ValidateKubeletConfiguration(config, utilfeature.DefaultFeatureGate); err != nil {
		return fmt.Errorf("checking the configuration (file %q): %w", flags.KubeletConfigFile, err)
	}
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	deps, err := dependencies(ctx, server, containers)
	if err != nil {
		return err
	}
	gates.AddMetrics()
	return app.Run(ctx, server, deps, utilfeature.DefaultFeatureGate)
}

// load reads a configuration file and applies the defaults of its API version.
func load(ctx context.Context, name string) (*kubeletconfig.KubeletConfiguration, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("finding the configuration file: %w", err)
	}
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, path)
	if err != nil {
		return nil, fmt.Errorf("opening the configuration file: %w", err)
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration file %s (kubeadm writes it at init and join): %w", path, err)
	}
	return config, nil
}

// overlay parses args again, now over the values of the configuration file. Flags outside the configuration go to
// throw-away values, because some of them accumulate when parsed twice.
func overlay(config *kubeletconfig.KubeletConfiguration, args []string) error {
	globals := pflag.NewFlagSet("", pflag.ContinueOnError)
	globals.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	options.AddGlobalFlags(globals)

	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	globals.VisitAll(func(f *pflag.Flag) { fs.VarP(cliflag.NoOp{}, f.Name, f.Shorthand, f.Usage) })
	options.NewKubeletFlags().AddFlags(fs)
	options.AddKubeletConfigFlags(fs, config)
	fs.SetOutput(io.Discard) // the first parse printed deprecation warnings

	fromFile := config.FeatureGates
	if err := fs.Parse(args); err != nil {
		return err
	}
	for gate, on := range fromFile {
		if _, ok := config.FeatureGates[gate]; !ok {
			config.FeatureGates[gate] = on
		}
	}
	return nil
}
