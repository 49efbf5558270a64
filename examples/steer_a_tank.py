"""Learn two tanks from recordings, plan the pump so that the level stays below a mark, try it."""

from foretell import EDMDc
from foretell.data.controlled_systems import cascaded_tanks
from foretell.dynamics.steering import steer

plant = cascaded_tanks()
recordings = plant.recordings(10, 200, hold=20, random_state=0)
model = EDMDc(degree=2, n_centres=0, horizon=40).fit(recordings)
print(model.horizon_errors(plant.recordings(5, 200, hold=20, random_state=1)))

now, pump = [7.0, 6.5], 4.4
plan = steer(model, now, "level < 7.2", u_now=[pump])
print(plan)
print(f"with the pump as it is: {100 * plan.kept_untouched:.0f} % of the runs")

under_plan = plant.run([now], plan.inputs[None])[0, :, 1].max()
untouched = plant.run([now], [[[pump]] * 40])[0, :, 1].max()
print(f"highest level in the true tanks: {under_plan:.2f} under the plan, {untouched:.2f} without")
