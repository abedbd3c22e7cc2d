package part

import (
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capstan-dev/capstan/extension/setting"
)

// labelPrefix precedes the name of a part.
const labelPrefix = "extensions.capstan.dev/"

// Values of the label.
const (
	Enabled  = "enabled"
	Disabled = "disabled"
)

// Label returns the label that switches a part for one Cluster; its value is [Enabled] or [Disabled]. The label takes
// precedence over the setting "<part>.enabled".
func Label(name string) string { return labelPrefix + name }

func enabledSetting(name string) string { return name + ".enabled" }

// byLabel reports whether a Cluster's label switches a part on. decided is false if there is no label, so that the
// settings decide.
func byLabel(name string, cluster *clusterv1.Cluster) (on, decided bool, err error) {
	switch value, given := cluster.Labels[Label(name)]; {
	case !given:
		return true, false, nil
	case value == Enabled:
		return true, true, nil
	case value == Disabled:
		return false, true, nil
	}
	return false, false, fmt.Errorf("label %s of the Cluster must be %s or %s", Label(name), Enabled, Disabled)
}

// IsOn reports whether a part is switched on for a Cluster, by its label or else by the settings.
func IsOn(name string, cluster *clusterv1.Cluster, settings setting.Values) (bool, error) {
	on, decided, err := byLabel(name, cluster)
	if err != nil || decided {
		return on, err
	}
	return settings[enabledSetting(name)] == "true", nil
}
