package plan

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/extension/part"
	"github.com/capstan-dev/capstan/extension/setting"
	"github.com/capstan-dev/capstan/runtime/hook"
	"github.com/capstan-dev/capstan/runtime/upgradeplan"
)

const (
	// Name is the name of the part and of its handler.
	Name = "upgrade-plan"
	// versionsSetting replaces the versions that hosts offer.
	versionsSetting = Name + ".versions"
)

// New returns the part. The reader reads CapstanHosts.
func New(reader client.Reader) part.Part {
	p := planner{reader: reader}
	return part.Part{
		Name: Name,
		Settings: []setting.Setting{{
			Name: versionsSetting, Allowed: "versions of Kubernetes such as v1.36.3, separated by \",\"", Check: checkVersions,
			Does: "The versions of Kubernetes that upgrade plans may use. If the setting is empty, plans use the versions " +
				"that the hosts of the namespace offer.",
		}},
		Handlers: []part.Handler{part.HandleResponse(hook.GenerateUpgradePlan, Name, p.generate)},
	}
}

type planner struct{ reader client.Reader }

// generate answers with the plan from a Cluster's version to the desired one. If there is no such plan, it fails, which
// blocks the upgrade; the error names the missing version.
func (p planner) generate(
	ctx context.Context, settings setting.Values,
	request *runtimehooksv1.GenerateUpgradePlanRequest, response *runtimehooksv1.GenerateUpgradePlanResponse,
) error {
	available := func(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
		if given := split(settings[versionsSetting]); len(given) > 0 {
			return given, nil
		}
		return offered(ctx, p.reader, &request.Cluster)
	}
	if err := upgradeplan.Generate(available)(ctx, request, response); err != nil {
		return fmt.Errorf("planning the upgrade to %s: %w", request.ToKubernetesVersion, err)
	}
	return nil
}

func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func checkVersions(text string) error {
	for _, one := range split(text) {
		if _, err := version.ParseSemantic(one); err != nil || !strings.HasPrefix(one, "v") {
			return fmt.Errorf("%q is not a version", one)
		}
	}
	return nil
}
