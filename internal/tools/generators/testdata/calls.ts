// A program on a client in TypeScript, made by openapi-typescript with its default
// options. .ci/generators checks its types; nothing runs it.
import createClient from "openapi-fetch";
import type { paths as Control } from "./control.js";
import type { components, paths as Platform } from "./dispensary.js";

const platform = createClient<Platform>({ baseUrl: "https://api.dispensary.example/api" });
const control = createClient<Control>({ baseUrl: "http://127.0.0.1:8080/control" });

// Optional fields can be left out, those with a default too.
const created = await platform.POST("/clinic/patients", {
  body: { email: "ada@example.com", first_name: "Ada", last_name: "Lovelace" },
});
const id: string | undefined = created.data?.patient.id;
const status: number = created.response.status;

const page = await platform.GET("/clinic/patients", { params: { query: { "page[number]": 2 } } });
const next: number | null | undefined = page.data?.meta.next_page;

await platform.POST("/clinic/dynamic_links/treatment_plans", {
  body: { treatment_plan: { practitioner_id: "1" }, patient: { email: "ada@example.com" } },
});
await platform.POST("/clinic/patients/{patient_id}/treatment_plans", {
  params: { path: { patient_id: "1" } },
  body: { practitioner_id: "1", recommendations: [{ variant_id: "1", units_to_purchase: 1 }] },
});

// A number, or a number in a string.
const token = await platform.POST("/oauth/token", {
  body: { grant_type: "refresh_token", client_id: "c", client_secret: "s", redirect_uri: "r", refresh_token: "t" },
});
const seconds: number = Number(token.data?.oauth.expires_in);

// @ts-expect-error: a patient has an e-mail address
await platform.POST("/clinic/patients", { body: { first_name: "Ada", last_name: "Lovelace" } });
// @ts-expect-error: there is no such path
await platform.GET("/clinic/patient");

// The data of an event follows from its type.
export function patientOf(event: components["schemas"]["Event"]): string | undefined {
  return event.type === "patient.updated" ? event.data.patient.email : undefined;
}

const placed = await control.POST("/patients/{patient_id}/orders", { params: { path: { patient_id: "1" } }, body: {} });
await control.POST("/faults", { body: { effect: "drop-after-commit", times: 1 } });

console.log(id, status, next, seconds, placed.data?.order?.id);
