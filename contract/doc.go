// Package contract holds the contracts of Cluster API as data: each rule that a provider, a runtime extension, core or
// clusterctl keeps.
//
// [Rules] returns the rules, [Decisions] the readings where the sources contradict each other, [Sequences] the
// behaviour tests: what to do and what must then be observed. [Find] looks up one rule by its id.
//
// # Families
//
//   - IM, IMT: InfraMachine and its template
//   - IC, ICT: InfraCluster and its template
//   - CP, BP, MP: ControlPlane, BootstrapConfig and InfraMachinePool, with their templates
//   - CC: ClusterClasses, their variables and patches
//   - RV: releases over time, and what Kubernetes asks of definitions, webhooks and components
//   - RB: roles and their rights
//   - CT: the clusterctl provider contract
//   - RX: Runtime Extension server and Discovery
//   - RC: registration by ExtensionConfig
//   - RS: rules of the Runtime SDK: versions, catalog, conversion, OpenAPI
//   - CL: client and semantics of calls
//   - LH: lifecycle hooks
//   - UH: hooks that exist upstream beside the lifecycle hooks
//   - SG: security and best practice
//
// # Sources
//
// A source names a document, then its section:
//
//   - 000: machine infrastructure provider specification (contract v1beta1, the oldest wording)
//   - 001: Runtime SDK proposal (last updated 2022-04-01)
//   - 002: lifecycle hooks (Cluster API v1.2 to v1.11)
//   - 003: InfraCluster contract rules (v1beta1)
//   - 004: clusterctl provider contract
//   - UP: Cluster API after v1.14.0. UP:im and UP:ic are the book's pages of InfraMachine and InfraCluster, UP:cp,
//     UP:bp and UP:mp those of ControlPlane, BootstrapConfig and InfraMachinePool, UP:ctl that of clusterctl, UP:cc
//     that of writing a ClusterClass; UP:ext, UP:lh and UP:dep those of implementing extensions, implementing hooks and
//     deploying; UP:sdk is the proposal, UP:code Go source, UP:v1.9 the page at v1.9.9
//   - UP:k8s: the documentation of Kubernetes
//
// # How a rule is checked
//
// S: statically, on files. A: against an API server that has the definitions, without a controller. B: by behaviour,
// with controller, extension or clusterctl running. R: by people.
package contract
