package main

import (
	"slices"

	"github.com/spf13/cobra"
	upstream "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
)

func (a *app) clusterctlGenerateCommand(t *target) *cobra.Command {
	generate := &cobra.Command{Use: "generate", Short: "Generate the YAML of a cluster or of a provider"}
	var o upstream.GetClusterTemplateOptions
	var source upstream.ProviderRepositorySourceOptions
	var configMap upstream.ConfigMapSourceOptions
	var from, path string
	var controlPlane, workers int64
	cmd := &cobra.Command{
		Use: "cluster NAME", Short: "Generate the YAML of a cluster from a template", Args: cobra.ExactArgs(1),
		Example: `  capstan clusterctl generate cluster blue --kubernetes-version v1.36.3 --worker-machine-count 2 | capstan kubectl apply -f -
  capstan clusterctl generate cluster blue --flavor external --list-variables`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.clusterctl(cmd, t, true)
			if err != nil {
				return err
			}
			o.Kubeconfig, o.ClusterName = c.Kubeconfig, args[0]
			if o.TargetNamespace == "" {
				o.TargetNamespace = a.namespace
			}
			if isSet(cmd, "control-plane-machine-count") {
				o.ControlPlaneMachineCount = &controlPlane
			}
			if isSet(cmd, "worker-machine-count") {
				o.WorkerMachineCount = &workers
			}
			switch {
			case from != "":
				o.URLSource = &upstream.URLSourceOptions{URL: from}
			case configMap.Name != "":
				if configMap.Namespace == "" {
					configMap.Namespace = a.namespace
				}
				o.ConfigMapSource = &configMap
			default:
				if source.InfrastructureProvider == "" && c.Kubeconfig.Path == "" {
					source.InfrastructureProvider = c.Template()
				}
				o.ProviderRepositorySource = &source
			}
			template, err := c.GetClusterTemplate(cmd.Context(), o)
			if err != nil {
				return err
			}
			if o.ListVariablesOnly {
				return a.printVariables(template)
			}
			return a.writeYAML(template.Yaml, path)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&source.InfrastructureProvider, "infrastructure", "i", "", "infrastructure provider whose template is used (default: the one that is installed)")
	f.StringVarP(&source.Flavor, "flavor", "f", "", "variant of the template (default: the one without a name)")
	f.StringVar(&from, "from", "", "URL or file of a template, - for stdin, instead of the provider's")
	f.StringVar(&configMap.Name, "from-config-map", "", "ConfigMap with a template, instead of the provider's")
	f.StringVar(&configMap.Namespace, "from-config-map-namespace", "", "namespace of the ConfigMap (default: --namespace)")
	f.StringVar(&configMap.DataKey, "from-config-map-key", "", "key in the ConfigMap (default: template)")
	f.StringVar(&o.TargetNamespace, "target-namespace", "", "namespace of the cluster (default: --namespace)")
	f.StringVar(&o.KubernetesVersion, "kubernetes-version", "", "Kubernetes version (default: variable KUBERNETES_VERSION)")
	f.Int64Var(&controlPlane, "control-plane-machine-count", 1, "number of control plane machines")
	f.Int64Var(&workers, "worker-machine-count", 0, "number of workers")
	f.BoolVar(&o.ListVariablesOnly, "list-variables", false, "print the variables of the template instead")
	writeToFlag(cmd, &path)
	cmd.MarkFlagsMutuallyExclusive("from", "from-config-map", "infrastructure")
	cmd.MarkFlagsMutuallyExclusive("from", "from-config-map", "flavor")
	_ = cmd.RegisterFlagCompletionFunc("kubernetes-version", a.completeVersion)
	generate.AddCommand(cmd, a.clusterctlGenerateProviderCommand(t), a.clusterctlGenerateYAMLCommand(t))
	return generate
}

// printVariables shows the variables of a template with their defaults.
func (a *app) printVariables(template upstream.Template) error {
	defaults := template.VariableMap()
	names := template.Variables()
	slices.Sort(names)
	var rows [][]string
	for _, name := range names {
		value := "(required)"
		if d := defaults[name]; d != nil {
			value = dash(*d)
		}
		rows = append(rows, []string{name, value})
	}
	return a.table([]string{"VARIABLE", "DEFAULT"}, rows)
}
