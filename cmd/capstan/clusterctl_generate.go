package main

import (
	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"

	"github.com/capstan-dev/capstan/clusterctl"
)

func (a *app) clusterctlGenerateCommand(t *target) *cobra.Command {
	generate := &cobra.Command{Use: "generate", Short: "Generate the YAML of a cluster or of a provider"}
	generate.AddCommand(a.clusterctlGenerateClusterCommand(t), a.clusterctlGenerateProviderCommand(t),
		a.clusterctlGenerateYAMLCommand(t))
	return generate
}

func (a *app) clusterctlGenerateClusterCommand(t *target) *cobra.Command {
	var o upstream.GetClusterTemplateOptions
	var source clusterctl.Source
	var path string
	var controlPlane, workers int64
	cmd := &cobra.Command{
		Use: "cluster NAME", Short: "Generate the YAML of a cluster from a template",
		Example: `  capstan clusterctl generate cluster blue --kubernetes-version v1.36.3 --worker-machine-count 2 | capstan kubectl apply -f -
  capstan clusterctl generate cluster blue --flavor external --list-variables`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.clusterctl(cmd, t, true)
			if err != nil {
				return err
			}
			o.ClusterName = args[0]
			if cmd.Flags().Changed("control-plane-machine-count") {
				o.ControlPlaneMachineCount = &controlPlane
			}
			if cmd.Flags().Changed("worker-machine-count") {
				o.WorkerMachineCount = &workers
			}
			template, err := c.Generate(cmd.Context(), a.namespace, source, o)
			if err != nil {
				return err
			}
			if o.ListVariablesOnly {
				return a.printVariables(clusterctl.Variables(template))
			}
			return a.writeYAML(template.Yaml, path)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&source.Repository.InfrastructureProvider, "infrastructure", "i", "",
		"infrastructure provider whose template to use (default: the installed one)")
	f.StringVarP(&source.Repository.Flavor, "flavor", "f", "",
		"variant of the template (default: the unnamed one)")
	f.StringVar(&source.From, "from", "", "URL or file of a template, - for stdin, instead of the provider's")
	f.StringVar(&source.ConfigMap.Name, "from-config-map", "", "ConfigMap with a template, instead of the provider's")
	f.StringVar(&source.ConfigMap.Namespace, "from-config-map-namespace", "",
		"namespace of the ConfigMap (default: --namespace)")
	f.StringVar(&source.ConfigMap.DataKey, "from-config-map-key", "", "key in the ConfigMap (default: template)")
	f.StringVar(&o.TargetNamespace, "target-namespace", "", "namespace of the cluster (default: --namespace)")
	f.StringVar(&o.KubernetesVersion, "kubernetes-version", "",
		"Kubernetes version (default: variable KUBERNETES_VERSION)")
	f.Int64Var(&controlPlane, "control-plane-machine-count", 1, "number of control plane machines")
	f.Int64Var(&workers, "worker-machine-count", 0, "number of workers")
	f.BoolVar(&o.ListVariablesOnly, "list-variables", false, "print the variables of the template instead")
	writeToFlag(cmd, &path)
	cmd.MarkFlagsMutuallyExclusive("from", "from-config-map", "infrastructure")
	cmd.MarkFlagsMutuallyExclusive("from", "from-config-map", "flavor")
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", a.completeVersion)
	return cmd
}

// printVariables prints the variables of a template with their defaults.
func (a *app) printVariables(variables []clusterctl.Variable) error {
	var rows [][]string
	for _, v := range variables {
		value := "(required)"
		if v.Default != nil {
			value = dash(*v.Default)
		}
		rows = append(rows, []string{v.Name, value})
	}
	return a.table([]string{"VARIABLE", "DEFAULT"}, rows)
}
